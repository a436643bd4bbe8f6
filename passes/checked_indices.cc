#include "passes/checked_indices.h"

#include <algorithm>
#include <limits>

namespace fusec {

bool DependsOnConstants(const Value* value) {
  std::vector<const Value*> work = {value};
  NodeSet seen;
  while (!work.empty()) {
    const Value* next = work.back();
    work.pop_back();
    if (next == nullptr || IsConstant(next)) continue;
    if (next->producer == nullptr) return false;  // an input
    if (!seen.insert(next->producer).second) continue;
    const ValueList& operands = next->producer->operands;
    work.insert(work.end(), operands.begin(), operands.end());
  }
  return true;
}

Value* NumbersBelow(Builder& builder, const Expr& count, Dtype dtype, const std::string& name) {
  return builder.Make(
      OpKind::kRange, {},
      {{"start", int64_t{0}}, {"delta", int64_t{1}}, {"length", Exprs{count}}, {"dtype", dtype}},
      name);
}

Value* CheckedIndices(Builder& builder, Value* indices, const Expr& extent,
                      const std::string& name) {
  const std::optional<int64_t> count = extent.AsConstant();
  Value* numbers = nullptr;
  if (count && DependsOnConstants(indices)) {
    TensorData data(Dtype::kI64, {*count});
    for (int64_t i = 0; i < *count; ++i) data.SetInt(i, i);
    numbers = builder.Constant(std::move(data));
  } else {
    numbers = NumbersBelow(builder, extent, Dtype::kI64, name + "_numbers");
  }
  return builder.Make(OpKind::kGather, {numbers, indices}, {{"axis", int64_t{0}}},
                      name + "_inside");
}

Value* InFewestBits(Builder& builder, Value* numbers, const Expr& extent, const Ranges& ranges,
                    const std::string& name) {
  if (ranges.IntervalOf(extent).high > std::numeric_limits<int32_t>::max()) return numbers;
  return builder.Make(OpKind::kCast, {numbers}, {{"to", Dtype::kI32}}, name);
}

}  // namespace fusec
