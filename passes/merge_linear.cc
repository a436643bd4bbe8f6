#include "passes/merge_linear.h"

#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kMostTerms = int64_t{1} << 31;

// The first of two layers, whose result (plus bias) another product reads.
struct LayerAbove {
  const Node* product = nullptr;
  const Node* sum = nullptr;  // null without bias
  Factors bias = {0.0};
};

std::optional<LayerAbove> FindAbove(const Graph& graph, const ReaderMap& readers, const Value* h) {
  LayerAbove above;
  if (!h->producer || !HasOneReader(graph, readers, h)) return std::nullopt;
  if (h->producer->kind == OpKind::kAdd) {
    const Node& sum = *h->producer;
    const int constant = Payload(sum.operand(0)) ? 0 : 1;
    const auto bias = FactorsAlong(sum.operand(constant), h->type.rank() - 1, h->type.rank());
    const Value* m = sum.operand(1 - constant);
    if (!bias || m->type != h->type || !HasOneReader(graph, readers, m)) return std::nullopt;
    above.sum = &sum;
    above.bias = *bias;
    h = m;
  }
  above.product = h->producer;
  if (!above.product || !RightWeights(*above.product) ||
      !HasOneReader(graph, readers, above.product->operand(1)))
    return std::nullopt;
  return above;
}

bool IsCheaper(const ConstantMatrix& w, const ConstantMatrix& v) {
  const int64_t k = w.terms(), m = w.results(), n = v.results();
  return k * n <= k * m + m * n && (k == 0 || m == 0 || n == 0 || m * n <= kMostTerms / k);
}

// The product w v, computed row by row; nullopt if an element is not finite.
std::optional<MadeConstant> Product(const ConstantMatrix& w, const ConstantMatrix& v) {
  TensorData merged(w.data->dtype(), {w.terms(), v.results()});
  std::vector<double> row(v.results());
  for (int64_t k = 0; k < w.terms(); ++k) {
    for (double& sum : row) sum = 0;
    for (int64_t m = 0; m < w.results(); ++m) {
      const double weight = w.At(k, m);
      for (int64_t n = 0; n < v.results(); ++n) row[n] += weight * v.At(m, n);
    }
    for (int64_t n = 0; n < v.results(); ++n) {
      const int64_t at = k * v.results() + n;
      merged.SetDouble(at, row[n]);
      if (!std::isfinite(merged.GetDouble(at))) return std::nullopt;
    }
  }
  Recipe recipe;
  Value* product =
      recipe.MatMul(recipe.Exact(w.constant), recipe.Exact(v.constant), w.transposed, v.transposed);
  return recipe.Finish(product, std::move(merged));
}

bool MergeAbove(Graph& graph, const ReaderMap& readers, const PassOptions& options, Node& product) {
  const auto v = RightWeights(product);
  if (!v) return false;
  const auto above = FindAbove(graph, readers, product.operand(0));
  if (!above || !HasOneReader(graph, readers, product.operand(1)) ||
      IsKeptAdapter(product, readers, options))
    return false;
  const ConstantMatrix w = *RightWeights(*above->product);
  if (!IsCheaper(w, *v)) return false;
  auto merged = Product(w, *v);
  const auto shift = ShiftOfResult(graph, readers, product, above->bias);
  if (!merged || !shift) return false;
  AddProvenance(product, *above->product);
  if (above->sum) AddProvenance(product, *above->sum);
  const std::string name = product.operand(1)->name;
  product.operands[0] = above->product->operands[0];
  SetConstant(graph, product, 1, *std::move(merged), name + "_merged");
  product.attributes["transpose_b"] = int64_t{0};
  ShiftResult(graph, product, *shift, name + "_shift");
  return true;
}

}  // namespace

Result<bool> MergeLinear(Graph& graph, const PassOptions& options, PassReport&) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!MergeAbove(graph, readers, options, *graph.nodes[i])) continue;
    changed = true;
    RemoveDeadNodes(graph);
    readers = Readers(graph);
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
