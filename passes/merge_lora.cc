#include "passes/merge_lora.h"

#include <optional>

#include "compiler/ops/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

const TensorData* Payload(const Value* value) {
  if (!value->producer || value->producer->kind != OpKind::kConstant) return nullptr;
  const TensorData& data = value->producer->constant;
  return data.bytes() || data.element_count() == 0 ? &data : nullptr;
}

// A constant matrix as a matmul reads it: row k, column n.
struct Matrix {
  const TensorData* data = nullptr;
  bool transposed = false;
  int64_t rows() const { return data->dims()[transposed ? 1 : 0]; }
  int64_t columns() const { return data->dims()[transposed ? 0 : 1]; }
  double At(int64_t k, int64_t n) const {
    return data->GetDouble(transposed ? n * rows() + k : k * columns() + n);
  }
};

// The constant right-hand side of `product`, a matmul.
std::optional<Matrix> Weights(const Node& product) {
  const TensorData* data = Payload(product.operand(1));
  if (!data || data->dims().size() != 2 || product.Int("transpose_a") != 0) return std::nullopt;
  return Matrix{data, product.Int("transpose_b") != 0};
}

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
  const bool is_product = node && node->kind == OpKind::kMatMul && IsFloat(value->type.dtype);
  return is_product && Weights(*node) ? node : nullptr;
}

struct Adapter {
  const Value* x = nullptr;
  Matrix down, up;
  double scale = 1;
};

std::optional<Adapter> FindAdapter(const Value* value) {
  Adapter adapter;
  const Node* up = ScaledProduct(value, adapter.scale);
  if (!up) return std::nullopt;
  const Node* down = ScaledProduct(up->operand(0), adapter.scale);
  if (!down) return std::nullopt;
  adapter.up = *Weights(*up);
  adapter.down = *Weights(*down);
  adapter.x = down->operand(0);
  return adapter;
}

// The matmul of `x` by a constant among the terms of the sum `value`, each of them read by the sum
// only.
Node* FindBase(const Graph& graph, const std::map<const Value*, std::vector<Node*>>& readers,
               const Value* value, const Value* x) {
  Node* node = value->producer;
  if (!node || readers.at(value).size() != 1 || IsOutput(graph, value)) return nullptr;
  if (node->kind == OpKind::kMatMul) {
    return node->operand(0) == x && Weights(*node) ? node : nullptr;
  }
  if (node->kind != OpKind::kAdd) return nullptr;
  for (const Value* term : node->operands) {
    if (term->type != value->type) continue;
    if (Node* base = FindBase(graph, readers, term, x)) return base;
  }
  return nullptr;
}

// W + s A B, stored as W is.
TensorData Merge(const Matrix& base, const Adapter& adapter) {
  TensorData merged(base.data->dtype(), base.data->dims());
  std::vector<double> row(base.columns());
  for (int64_t k = 0; k < base.rows(); ++k) {
    for (int64_t n = 0; n < base.columns(); ++n) row[n] = 0;
    for (int64_t r = 0; r < adapter.down.columns(); ++r) {
      const double weight = adapter.down.At(k, r);
      for (int64_t n = 0; n < base.columns(); ++n) row[n] += weight * adapter.up.At(r, n);
    }
    for (int64_t n = 0; n < base.columns(); ++n) {
      const int64_t at = base.transposed ? n * base.rows() + k : k * base.columns() + n;
      merged.SetDouble(at, base.At(k, n) + adapter.scale * row[n]);
    }
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
      base->operands[1] =
          builder.Constant(Merge(*Weights(*base), *adapter), base->operand(1)->name + "_with_lora");
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
