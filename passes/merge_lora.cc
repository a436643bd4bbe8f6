#include "passes/merge_lora.h"

#include <optional>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Follows `value` through multiplications by constant scalars, collected in `scale`, to a matmul by
// a constant.
const Node* ScaledProduct(const Value* value, double& scale) {
  while (value->producer && value->producer->kind == OpKind::kMul) {
    const Node& mul = *value->producer;
    const int constant = Payload(mul.operand(0)) ? 0 : 1;
    const TensorData* factor = Payload(mul.operand(constant));
    const Value* other = mul.operand(1 - constant);
    if (!factor || factor->element_count() != 1 || other->type != value->type) return nullptr;
    scale *= factor->GetDouble(0);
    value = other;
  }
  const Node* node = value->producer;
  return node && RightWeights(*node) ? node : nullptr;
}

struct Adapter {
  const Value* x = nullptr;
  ConstantMatrix down, up;
  double scale = 1;
};

std::optional<Adapter> FindAdapter(const Value* value) {
  Adapter adapter;
  const Node* up = ScaledProduct(value, adapter.scale);
  if (!up) return std::nullopt;
  const Node* down = ScaledProduct(up->operand(0), adapter.scale);
  if (!down) return std::nullopt;
  adapter.up = *RightWeights(*up);
  adapter.down = *RightWeights(*down);
  adapter.x = down->operand(0);
  return adapter;
}

// The matmul of `x` by a constant among the terms of the sum `value`, each of them read by the sum
// only, and once.
Node* FindBase(const Graph& graph, const ReaderMap& readers, const Value* value, const Value* x) {
  Node* node = value->producer;
  if (!node || !HasOneReader(graph, readers, value)) return nullptr;
  if (node->kind == OpKind::kMatMul) {
    return node->operand(0) == x && RightWeights(*node) ? node : nullptr;
  }
  if (node->kind != OpKind::kAdd || node->operand(0) == node->operand(1)) return nullptr;
  for (const Value* term : node->operands) {
    if (term->type != value->type) continue;
    if (Node* base = FindBase(graph, readers, term, x)) return base;
  }
  return nullptr;
}

// W + s A B, stored as W is.
TensorData Merge(const ConstantMatrix& base, const Adapter& adapter) {
  TensorData merged(base.data->dtype(), base.data->dims());
  std::vector<double> row(base.results());
  for (int64_t k = 0; k < base.terms(); ++k) {
    for (double& sum : row) sum = 0;
    for (int64_t r = 0; r < adapter.down.results(); ++r) {
      const double weight = adapter.down.At(k, r);
      for (int64_t n = 0; n < base.results(); ++n) row[n] += weight * adapter.up.At(r, n);
    }
    for (int64_t n = 0; n < base.results(); ++n)
      merged.SetDouble(base.Position(k, n), base.At(k, n) + adapter.scale * row[n]);
  }
  return merged;
}

}  // namespace

Result<bool> MergeLora(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& sum = *graph.nodes[i];
    if (sum.kind != OpKind::kAdd) continue;
    const auto readers = Readers(graph);
    for (int side = 0; side < 2; ++side) {
      Value* rest = sum.operands[1 - side];
      if (sum.operand(side)->type != sum.result()->type || rest->type != sum.result()->type)
        continue;
      const auto adapter = FindAdapter(sum.operand(side));
      if (!adapter) continue;
      Node* base = FindBase(graph, readers, rest, adapter->x);
      if (!base) continue;
      size_t place = 0;
      while (graph.nodes[place].get() != base) ++place;
      Builder builder(graph, place);
      builder.set_provenance(base->provenance);
      base->operands[1] = builder.Constant(Merge(*RightWeights(*base), *adapter),
                                           base->operand(1)->name + "_with_lora");
      base->provenance.insert(base->provenance.end(), sum.provenance.begin(), sum.provenance.end());
      std::swap(rest->name, sum.result()->name);
      graph.ReplaceAllUses(sum.result(), rest);
      changed = true;
      break;
    }
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
