#include "compiler/kernel/branch_ranges.h"

#include <algorithm>

namespace fusec {

BranchRanges::BranchRanges(Ranges& ranges, const Expr& position, const Expr& limit, bool is_below)
    : ranges_(ranges) {
  std::vector<std::string> symbols;
  position.CollectSymbols(symbols);
  if (symbols.size() != 1) return;
  const Expr offset = position - Expr::Symbol(symbols[0]);
  const Ranges::Bounds* bounds = ranges.Find(symbols[0]);
  std::vector<std::string> in_limit;
  limit.CollectSymbols(in_limit);
  const bool mentions_it =
      std::find(in_limit.begin(), in_limit.end(), symbols[0]) != in_limit.end();
  if (!offset.AsConstant() || !bounds || mentions_it) return;
  symbol_ = symbols[0];
  before_ = *bounds;
  const Expr first_above = limit - offset;
  Ranges::Bounds after = before_;
  // A bound that is not tighter than the old one is ignored.
  if (is_below && ranges.ProvenNonNegative(before_.high - first_above))
    after.high = first_above - 1;
  if (!is_below && ranges.ProvenNonNegative(first_above - before_.low)) after.low = first_above;
  ranges.Set(symbol_, after.low, after.high);
}

BranchRanges::~BranchRanges() {
  if (!symbol_.empty()) ranges_.Set(symbol_, before_.low, before_.high);
}

}  // namespace fusec
