#include "passes/whole_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kDeepest = 8;

// Whether all elements are whole numbers, infinities or NaN.
bool IsWhole(const Value* value, int depth = 0) {
  if (const std::optional<double> number = ScalarConstant(value))
    return *number == std::trunc(*number);
  const Node* node = value->producer;
  if (!node || depth > kDeepest) return false;
  switch (node->kind) {
    case OpKind::kRound:
    case OpKind::kFloor:
    case OpKind::kCeil:
      return true;
    case OpKind::kCast:
      return IsInteger(node->operand(0)->type.dtype);
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kClip:
      return std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
        return !operand || IsWhole(operand, depth + 1);
      });
    default:
      return false;
  }
}

struct Bounds {
  double least = -kInfinity, greatest = kInfinity;
};

// Bounds of all elements that are not NaN.
Bounds BoundsOf(const Value* value, int depth = 0) {
  if (const std::optional<double> number = ScalarConstant(value)) return {*number, *number};
  const Node* node = value->producer;
  Bounds bounds;
  if (!node || depth > kDeepest || node->operands.empty()) return bounds;
  const auto of = [&](size_t i) { return BoundsOf(node->operand(i), depth + 1); };
  switch (node->kind) {
    case OpKind::kMin:
    case OpKind::kMax:
      bounds = of(0);
      for (size_t i = 1; i < node->operands.size(); ++i) {
        const Bounds other = of(i);
        const auto better = [&](double a, double b) {
          return node->kind == OpKind::kMin ? std::min(a, b) : std::max(a, b);
        };
        bounds = {better(bounds.least, other.least), better(bounds.greatest, other.greatest)};
      }
      return bounds;
    case OpKind::kClip:
      if (node->operands.size() > 1 && node->operand(1)) bounds.least = of(1).least;
      if (node->operands.size() > 2 && node->operand(2)) bounds.greatest = of(2).greatest;
      return bounds.least <= bounds.greatest ? bounds : Bounds();
    default:
      return bounds;
  }
}

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

bool Holds(Dtype dtype, const Bounds& bounds) {
  const int bits = 8 * DtypeBytes(dtype) - (IsUnsigned(dtype) ? 0 : 1);
  const double above = std::ldexp(1.0, bits);
  return bounds.least >= (IsUnsigned(dtype) ? 0 : -above) && bounds.greatest < above;
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
  if (integers.empty() || x->type != type || !IsWhole(x)) return nullptr;
  const Bounds bounds = BoundsOf(x);
  if (!std::all_of(integers.begin(), integers.end(),
                   [&](Dtype dtype) { return Holds(dtype, bounds); }))
    return nullptr;
  Value* zero = builder.Constant(TensorData(type.dtype, {}), "zero");
  Value* is_nan = builder.Make(OpKind::kIsNaN, {x}, {}, x->name + "_is_nan");
  Value* numbers = builder.Make(OpKind::kWhere, {is_nan, zero, x}, {}, node.results[0]->name);
  if (HasNoNegativeZero(x)) return numbers;
  return builder.Make(OpKind::kAdd, {numbers, zero}, {}, node.results[0]->name);
}

}  // namespace fusec
