#include "passes/recognize_gelu.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

// A product, split into one constant number and the factors that are not constant numbers.
struct ProductParts {
  double scale = 1;
  std::vector<const Value*> factors;
};

void Flatten(const Value* value, ProductParts& parts, int depth = 0) {
  constexpr int kDeepest = 8;
  const Node* node = value->producer;
  if (const auto number = ScalarConstant(value)) {
    parts.scale *= *number;
  } else if (node && node->kind == OpKind::kMul && depth < kDeepest) {
    for (const Value* operand : node->operands) Flatten(operand, parts, depth + 1);
  } else if (node && node->kind == OpKind::kNeg && depth < kDeepest) {
    parts.scale = -parts.scale;
    Flatten(node->operand(0), parts, depth + 1);
  } else if (node && node->kind == OpKind::kDiv && ScalarConstant(node->operand(1)) &&
             depth < kDeepest) {
    parts.scale /= *ScalarConstant(node->operand(1));
    Flatten(node->operand(0), parts, depth + 1);
  } else if (node && node->kind == OpKind::kPow && ScalarConstant(node->operand(1)) == 3.0) {
    for (int i = 0; i < 3; ++i) parts.factors.push_back(node->operand(0));
  } else {
    parts.factors.push_back(value);
  }
}

ProductParts PartsOf(const Value* value) {
  ProductParts parts;
  Flatten(value, parts);
  return parts;
}

class GeluMatcher {
 public:
  explicit GeluMatcher(Dtype dtype) {
    tolerance_ = dtype == Dtype::kF64   ? 1e-12
                 : dtype == Dtype::kF32 ? 1e-6
                 : dtype == Dtype::kF16 ? 1e-3
                                        : 8e-3;
  }

  // The name of the approximation, and the operand, if `value` is a gelu.
  std::optional<std::pair<std::string, Value*>> Match(const Value* value) const {
    const ProductParts parts = PartsOf(value);
    if (parts.factors.size() != 2 || !IsNear(parts.scale, 0.5)) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      const Value* x = parts.factors[side];
      const Node* gate = OnePlus(parts.factors[1 - side]);
      const Node* whole = parts.factors[1 - side]->producer;
      if (x->type != value->type) continue;
      // 1 + erf(x) = erfc(-x)
      if (whole && whole->kind == OpKind::kErfc &&
          IsScaled(whole->operand(0), -1 / std::numbers::sqrt2, x))
        return std::pair{std::string("none"), const_cast<Value*>(x)};
      if (!gate) continue;
      if (gate->kind == OpKind::kErf && IsScaled(gate->operand(0), 1 / std::numbers::sqrt2, x))
        return std::pair{std::string("none"), const_cast<Value*>(x)};
      if (gate->kind == OpKind::kTanh && IsCubic(gate->operand(0), x))
        return std::pair{std::string("tanh"), const_cast<Value*>(x)};
    }
    return std::nullopt;
  }

 private:
  bool IsNear(double found, double wanted) const {
    return std::abs(found - wanted) <= tolerance_ * std::abs(wanted);
  }

  // If `value` is 1 + x, the node that makes x; otherwise null.
  const Node* OnePlus(const Value* value) const {
    const Node* add = value->producer;
    if (!add || add->kind != OpKind::kAdd) return nullptr;
    for (int side = 0; side < 2; ++side) {
      if (ScalarConstant(add->operand(side)) == 1.0) return add->operand(1 - side)->producer;
    }
    return nullptr;
  }

  bool IsScaled(const Value* value, double scale, const Value* x) const {
    const ProductParts parts = PartsOf(value);
    return IsNear(parts.scale, scale) && parts.factors == std::vector<const Value*>{x};
  }

  // Whether `value` is sqrt(2 / pi) (x + 0.044715 x^3).
  bool IsCubic(const Value* value, const Value* x) const {
    const ProductParts parts = PartsOf(value);
    if (parts.factors.size() != 1 || !IsNear(parts.scale, std::sqrt(2 / std::numbers::pi)))
      return false;
    const Node* add = parts.factors[0]->producer;
    if (!add || add->kind != OpKind::kAdd) return false;
    for (int side = 0; side < 2; ++side) {
      const ProductParts cube = PartsOf(add->operand(1 - side));
      if (add->operand(side) == x && IsNear(cube.scale, 0.044715) &&
          cube.factors == std::vector<const Value*>(3, x))
        return true;
    }
    return false;
  }

  double tolerance_ = 0;
};

}  // namespace

Result<bool> RecognizeGelu(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, [](const Node& node, Builder& builder) -> Value* {
    if (node.kind != OpKind::kMul || !IsFloat(node.result()->type.dtype)) return nullptr;
    const auto match = GeluMatcher(node.result()->type.dtype).Match(node.result());
    if (!match) return nullptr;
    Value* gelu = builder.Make(OpKind::kGelu, {match->second}, {{"approximate", match->first}},
                               node.result()->name);
    std::swap(gelu->name, node.result()->name);
    return gelu;
  });
}

}  // namespace fusec
