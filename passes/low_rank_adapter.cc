#include "passes/low_rank_adapter.h"

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool IsFloatCast(const Node* node) {
  return node && node->kind == OpKind::kCast && IsFloat(node->result()->type.dtype) &&
         IsFloat(node->operand(0)->type.dtype);
}

const Value* WithoutCasts(const Value* value) {
  while (IsFloatCast(value->producer)) value = value->producer->operand(0);
  return value;
}

// Follows `value` back through casts and multiplications by constant scalars, whose product becomes
// the adapter's scale, to a matmul by a constant.
const Node* ScaledProduct(const Value* value, LowRankAdapter& adapter) {
  while (true) {
    value = WithoutCasts(value);
    if (!value->producer || value->producer->kind != OpKind::kMul) break;
    const Node& mul = *value->producer;
    const int constant = Payload(mul.operand(0)) ? 0 : 1;
    const TensorData* factor = Payload(mul.operand(constant));
    const Value* other = mul.operand(1 - constant);
    if (!factor || factor->element_count() != 1 || other->type != value->type) return nullptr;
    adapter.scale *= factor->GetDouble(0);
    adapter.scale_factors.push_back(mul.operand(constant));
    value = other;
  }
  const Node* node = value->producer;
  return node && RightWeights(*node) ? node : nullptr;
}

// Whether the right operand of `product` is made of constants that keep-packed-weights left packed.
bool HasPackedWeights(const Node& product) {
  for (const Node* node : NodesBehind(product.operand(1))) {
    for (const Value* operand : node->operands) {
      if (operand != nullptr && operand->producer == nullptr) return false;  // an input
    }
  }
  return IsMadeOfCodes(product.operand(1)) && product.operand(1)->type.rank() == 2;
}

// The matmul of `x` by a constant among the terms of the sum `value`, all of which only the sum
// reads, and once.
Node* FindBase(const Graph& graph, const ReaderMap& readers, const Value* value, const Value* x) {
  Node* node = value->producer;
  if (!node || !HasOneReader(graph, readers, value)) return nullptr;
  if (node->kind == OpKind::kMatMul) {
    const bool same_rows = WithoutCasts(node->operand(0)) == WithoutCasts(x);
    return same_rows && (RightWeights(*node) || HasPackedWeights(*node)) ? node : nullptr;
  }
  if (IsFloatCast(node)) return FindBase(graph, readers, node->operand(0), x);
  if (node->kind != OpKind::kAdd || node->operand(0) == node->operand(1)) return nullptr;
  for (const Value* term : node->operands) {
    if (term->type != value->type) continue;
    if (Node* base = FindBase(graph, readers, term, x)) return base;
  }
  return nullptr;
}

}  // namespace

Value* Scaled(Recipe& recipe, const LowRankAdapter& adapter, Value* product) {
  Value* scale = nullptr;
  for (const Value* constant : adapter.scale_factors) {
    Value* factor = recipe.Reshape(recipe.Exact(constant), {});
    scale = scale ? recipe.Mul(scale, factor) : factor;
  }
  return scale ? recipe.Mul(scale, product) : product;
}

std::optional<LowRankAdapter> FindLowRankAdapter(const Graph& graph, const ReaderMap& readers,
                                                 const Node& sum) {
  for (int side = 0; side < 2; ++side) {
    const Value* rest = sum.operand(1 - side);
    if (sum.operand(side)->type != sum.result()->type || rest->type != sum.result()->type) continue;
    LowRankAdapter adapter{side};
    adapter.up_product = ScaledProduct(sum.operand(side), adapter);
    if (!adapter.up_product) continue;
    adapter.down_product = ScaledProduct(adapter.up_product->operand(0), adapter);
    if (!adapter.down_product) continue;
    adapter.up = *RightWeights(*adapter.up_product);
    adapter.down = *RightWeights(*adapter.down_product);
    adapter.x = adapter.down_product->operand(0);
    adapter.base = FindBase(graph, readers, rest, adapter.x);
    if (adapter.base) return adapter;
  }
  return std::nullopt;
}

}  // namespace fusec
