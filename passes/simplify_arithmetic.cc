#include "passes/simplify_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"

namespace fusec {

namespace {

bool AllElements(const Value* value, bool (*holds)(double)) {
  const TensorData* data = Payload(value);
  if (!data || !IsFloat(data->dtype())) return false;
  for (int64_t i = 0; i < data->element_count(); ++i) {
    if (!holds(data->GetDouble(i))) return false;
  }
  return true;
}

// Whether no element can be negative or -0; elements may be NaN.
bool IsNeverNegative(const Value* value, int depth = 0) {
  constexpr int kDeepest = 8;
  if (AllElements(value, [](double x) { return !std::signbit(x); })) return true;
  const Node* node = value->producer;
  if (!node || depth == kDeepest) return false;
  const auto operand_is = [&](int i) { return IsNeverNegative(node->operand(i), depth + 1); };
  switch (node->kind) {
    case OpKind::kAbs:
    case OpKind::kExp:
    case OpKind::kSigmoid:
      return true;
    case OpKind::kSqrt:
    case OpKind::kReduceMean:
    case OpKind::kReduceSum:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kExpand:
      return operand_is(0);
    case OpKind::kMul:
      if (node->operand(0) == node->operand(1)) return true;
      [[fallthrough]];
    case OpKind::kAdd:
    case OpKind::kDiv:
      return operand_is(0) && operand_is(1);
    default:
      return false;
  }
}

Value* SimplifyPower(const Node& node, Builder& builder) {
  const TensorData* exponent = Payload(node.operand(1));
  if (!exponent || exponent->element_count() != 1) return nullptr;
  const double power = exponent->GetDouble(0);
  Value* x = node.operand(0);
  const Dtype dtype = x->type.dtype;
  const bool is_half = dtype == Dtype::kF16 || dtype == Dtype::kBF16;
  const std::string& name = node.result()->name;
  if (power == 1) return x;
  if (power == 2) return builder.Make(OpKind::kMul, {x, x}, {}, name);
  if (power == -1) return builder.Make(OpKind::kReciprocal, {x}, {}, name);
  if (power == 3 && !is_half) {
    Value* square = builder.Make(OpKind::kMul, {x, x}, {}, name + "_square");
    return builder.Make(OpKind::kMul, {square, x}, {}, name);
  }
  if (std::fabs(power) != 0.5 || (power < 0 && is_half) || !IsNeverNegative(x)) return nullptr;
  if (power > 0) return builder.Make(OpKind::kSqrt, {x}, {}, name);
  Value* root = builder.Make(OpKind::kSqrt, {x}, {}, name + "_root");
  return builder.Make(OpKind::kReciprocal, {root}, {}, name);
}

bool IsPowerOfTwo(double x) {
  int exponent = 0;
  // Both 2^e and 2^-e are normal numbers of f16, and so of all types.
  return std::fabs(std::frexp(x, &exponent)) == 0.5 && exponent >= -13 && exponent <= 15;
}

Value* SimplifyDivision(const Node& node, Builder& builder) {
  const Value* divisor = node.operand(1);
  if (!AllElements(divisor, &IsPowerOfTwo)) return nullptr;
  const TensorData& data = *Payload(divisor);
  TensorData inverse(data.dtype(), data.dims());
  for (int64_t i = 0; i < data.element_count(); ++i) inverse.SetDouble(i, 1 / data.GetDouble(i));
  Recipe recipe;
  Value* quotient = recipe.Div(recipe.Number(1), recipe.Exact(divisor));
  Value* factor =
      AddConstant(builder, recipe.Finish(quotient, std::move(inverse)), divisor->name + "_inverse");
  return builder.Make(OpKind::kMul, {node.operands[0], factor}, {}, node.result()->name);
}

}  // namespace

Value* SimplifyArithmetic(const Node& node, Builder& builder) {
  if (node.results.size() != 1 || !IsFloat(node.result()->type.dtype)) return nullptr;
  const TensorType& type = node.result()->type;
  const auto is_one = [](double x) { return x == 1; };
  switch (node.kind) {
    case OpKind::kMul:
      for (int side = 0; side < 2; ++side) {
        if (node.operand(1 - side)->type == type && AllElements(node.operand(side), is_one))
          return node.operand(1 - side);
      }
      return nullptr;
    case OpKind::kDiv:
      if (node.operand(0)->type == type && AllElements(node.operand(1), is_one))
        return node.operand(0);
      return SimplifyDivision(node, builder);
    case OpKind::kSub: {
      const auto is_zero = [](double x) { return x == 0 && !std::signbit(x); };
      const bool same = node.operand(0)->type == type && AllElements(node.operand(1), is_zero);
      return same ? node.operand(0) : nullptr;
    }
    case OpKind::kPow:
      return node.operand(0)->type == type ? SimplifyPower(node, builder) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace fusec
