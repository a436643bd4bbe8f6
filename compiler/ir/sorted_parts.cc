#include "compiler/ir/sorted_parts.h"

namespace fusec {

Expr SortedParts::KeptOf(const Expr& number, const Ranges& ranges) const {
  return Min(kept, Min(part, length - number * part, ranges), ranges);
}

SortedParts PartsOfTopK(const Node& top_k, const Ranges& ranges) {
  const Expr& length = top_k.operand(0)->type.shape[top_k.Int("axis")];
  const Expr& kept = top_k.Get<Exprs>("k")[0];
  if (!top_k.Has(kPart)) return {length, 1, length, kept};
  const int64_t part = top_k.Int(kPart);
  return {length, CeilDiv(length, part, ranges), part, kept};
}

SortedParts PartsOfMerge(const Node& merge_sorted, const Ranges& ranges) {
  const Expr& length = merge_sorted.Get<Exprs>("length")[0];
  const int64_t part = merge_sorted.Int(kPart);
  return {length, CeilDiv(length, part, ranges), part, merge_sorted.Get<Exprs>("kept")[0]};
}

}  // namespace fusec
