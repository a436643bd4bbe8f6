#include "passes/whole_numbers.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "passes/graph_edit.h"
#include "passes/number_ranges.h"

namespace fusec {

namespace {

constexpr int kDeepest = 8;

// Whether no element is -0, which only a sum with another number than -0 rules out.
bool HasNoNegativeZero(const Value* value, int depth = 0) {
  if (const std::optional<double> number = ScalarConstant(value))
    return *number != 0 || !std::signbit(*number);
  const Node* node = value->producer;
  if (!node || depth > kDeepest) return false;
  switch (node->kind) {
    case OpKind::kCast:
      return IsInteger(node->operand(0)->type.dtype);
    case OpKind::kAdd:
      return std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
        return HasNoNegativeZero(operand, depth + 1);
      });
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kClip:
      return std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
        return !operand || HasNoNegativeZero(operand, depth + 1);
      });
    default:
      return false;
  }
}

bool Holds(Dtype dtype, const NumberRange& range) {
  const int bits = 8 * DtypeBytes(dtype) - (IsUnsigned(dtype) ? 0 : 1);
  const double above = std::ldexp(1.0, bits);
  return range.least >= (IsUnsigned(dtype) ? 0 : -above) && range.greatest < above;
}

}  // namespace

Value* SkipIntegers(const Node& node, Builder& builder) {
  const TensorType& type = node.results[0]->type;
  if (node.kind != OpKind::kCast || (type.dtype != Dtype::kF32 && type.dtype != Dtype::kF64))
    return nullptr;
  Value* x = node.operand(0);
  std::vector<Dtype> integers;
  while (IsInteger(x->type.dtype)) {
    if (!x->producer || x->producer->kind != OpKind::kCast) return nullptr;
    integers.push_back(x->type.dtype);
    x = x->producer->operand(0);
  }
  if (integers.empty() || x->type != type) return nullptr;
  const NumberRange range = RangeOf(x);
  if (!range.is_whole || !std::all_of(integers.begin(), integers.end(),
                                      [&](Dtype dtype) { return Holds(dtype, range); }))
    return nullptr;
  Value* zero = builder.Constant(TensorData(type.dtype, {}), "zero");
  Value* is_nan = builder.Make(OpKind::kIsNaN, {x}, {}, x->name + "_is_nan");
  Value* numbers = builder.Make(OpKind::kWhere, {is_nan, zero, x}, {}, node.results[0]->name);
  if (HasNoNegativeZero(x)) return numbers;
  return builder.Make(OpKind::kAdd, {numbers, zero}, {}, node.results[0]->name);
}

}  // namespace fusec
