#include "passes/sort_by_digits.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "compiler/ir/sorted_parts.h"
#include "passes/checked_indices.h"

namespace fusec {

namespace {

constexpr int64_t kMostDigits = 3;         // with more, parts that are merged are as fast
constexpr int64_t kShortVector = 1 << 16;  // up to this length, vectors are sorted in parts

// The bits of the greatest number.
int64_t BitsOf(const Node& top_k, const Ranges& ranges) {
  const int64_t below = ranges.IntervalOf(top_k.Get<Exprs>(kBelow)[0]).high;
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(below - 1, 1)));
}

}  // namespace

bool TakesDigits(const Node& top_k, const Ranges& ranges) {
  const TensorType& type = top_k.operand(0)->type;
  return top_k.Has(kBelow) && type.rank() == 1 && type.dtype == Dtype::kI32 &&
         top_k.Int("largest") == 0 && top_k.Get<Exprs>("k")[0] == type.shape[0] &&
         ranges.IntervalOf(type.shape[0]).high > kShortVector &&
         ranges.IntervalOf(type.shape[0]).high <= std::numeric_limits<int32_t>::max() &&
         BitsOf(top_k, ranges) <= kMostDigitBits * kMostDigits;
}

Result<SortedVectors> SortByDigits(const Node& top_k, const Ranges& ranges, Builder& builder) {
  const int64_t bits = BitsOf(top_k, ranges), passes = CeilDiv(bits, kMostDigitBits);
  const std::string& name = top_k.result()->name;
  Value* numbers = top_k.operand(0);
  const Expr& count = numbers->type.shape[0];
  Value* places = NumbersBelow(builder, count, Dtype::kI32, name + "_places");
  const auto running = [&](Value* counts, int64_t axis) {
    return builder.Make(OpKind::kCumSum, {counts},
                        {{"axis", axis}, {"exclusive", int64_t{1}}, {"reverse", int64_t{0}}},
                        name + "_before");
  };
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t shift = bits * pass / passes;
    const Attributes digit = {
        {"shift", shift}, {"bits", bits * (pass + 1) / passes - shift}, {"tile", kMostDigitTile}};
    Value* counts = builder.Make(OpKind::kDigitCounts, {numbers}, digit, name + "_counts");
    Value* totals = builder.Make(OpKind::kReduceSum, {counts},
                                 {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}},
                                 name + "_total");
    Value* before =
        builder.Make(OpKind::kAdd, {running(counts, 1), running(totals, 0)}, {}, name + "_before");
    FUSEC_ASSIGN(Node * ordered, builder.Add(OpKind::kOrderByDigit, {numbers, places, before},
                                             digit, name + "_by_digit"));
    numbers = ordered->result(0);
    places = ordered->result(1);
  }
  places = builder.Make(OpKind::kCast, {places}, {{"to", Dtype::kI64}}, name + "_places");
  return SortedVectors{numbers, places};
}

}  // namespace fusec
