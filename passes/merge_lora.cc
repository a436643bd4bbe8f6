#include "passes/merge_lora.h"

#include <cmath>

#include "passes/graph_edit.h"
#include "passes/low_rank_adapter.h"

namespace fusec {

namespace {

// W + s A B, stored like W; nullopt if an element of s A B is not finite, or an element of the sum
// is not finite although that of W is. A merged layer would then give NaN or infinity in other
// columns than layer and adapter do.
std::optional<MadeConstant> Merge(const ConstantMatrix& base, const LowRankAdapter& adapter) {
  TensorData merged(base.data->dtype(), base.data->dims());
  std::vector<double> row(base.results());
  for (int64_t k = 0; k < base.terms(); ++k) {
    for (double& sum : row) sum = 0;
    for (int64_t r = 0; r < adapter.down.results(); ++r) {
      const double weight = adapter.down.At(k, r);
      for (int64_t n = 0; n < base.results(); ++n) row[n] += weight * adapter.up.At(r, n);
    }
    for (int64_t n = 0; n < base.results(); ++n) {
      const int64_t at = base.Position(k, n);
      const double delta = adapter.scale * row[n];
      merged.SetDouble(at, base.At(k, n) + delta);
      const bool is_finite = std::isfinite(merged.GetDouble(at)) || !std::isfinite(base.At(k, n));
      if (!is_finite || !std::isfinite(delta)) return std::nullopt;
    }
  }
  Recipe recipe;
  Value* down = recipe.Exact(adapter.down.constant);
  Value* up = recipe.Exact(adapter.up.constant);
  Value* product = recipe.MatMul(down, up, adapter.down.transposed, adapter.up.transposed);
  product = recipe.Turned(Scaled(recipe, adapter, product), base.transposed);
  return recipe.Finish(recipe.Add(recipe.Exact(base.constant), product), std::move(merged));
}

}  // namespace

Result<bool> MergeLora(Graph& graph, const PassOptions&, PassReport& report) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& sum = *graph.nodes[i];
    if (sum.kind != OpKind::kAdd) continue;
    const auto adapter = FindLowRankAdapter(graph, readers, sum);
    if (!adapter) continue;
    if (!RightWeights(*adapter->base)) {
      report.Refuse(sum.operand(adapter->delta), sum, kPacked, "weights of floats");
      continue;
    }
    std::optional<MadeConstant> merged = Merge(*RightWeights(*adapter->base), *adapter);
    if (!merged) {
      report.Refuse(sum.operand(adapter->delta), sum, kNotFinite, "finite weights");
      continue;
    }
    size_t place = 0;
    while (graph.nodes[place].get() != adapter->base) ++place;
    Builder builder(graph, place);
    builder.set_provenance(adapter->base->provenance);
    adapter->base->operands[1] =
        AddConstant(builder, *std::move(merged), adapter->base->operand(1)->name + "_with_lora");
    adapter->base->provenance.insert(adapter->base->provenance.end(), sum.provenance.begin(),
                                     sum.provenance.end());
    Value* rest = sum.operand(1 - adapter->delta);
    std::swap(rest->name, sum.result()->name);
    graph.ReplaceAllUses(sum.result(), rest);
    readers = Readers(graph);
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
