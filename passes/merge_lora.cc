#include "passes/merge_lora.h"

#include "passes/graph_edit.h"
#include "passes/low_rank_adapter.h"

namespace fusec {

namespace {

// W + s A B, stored as W is.
MadeConstant Merge(const ConstantMatrix& base, const LowRankAdapter& adapter) {
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
  Recipe recipe;
  Value* down = recipe.Exact(adapter.down.constant);
  Value* up = recipe.Exact(adapter.up.constant);
  Value* product = recipe.MatMul(down, up, adapter.down.transposed, adapter.up.transposed);
  product = recipe.Turned(Scaled(recipe, adapter, product), base.transposed);
  return recipe.Finish(recipe.Add(recipe.Exact(base.constant), product), std::move(merged));
}

}  // namespace

Result<bool> MergeLora(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& sum = *graph.nodes[i];
    if (sum.kind != OpKind::kAdd) continue;
    const auto adapter = FindLowRankAdapter(graph, readers, sum);
    if (!adapter) continue;
    size_t place = 0;
    while (graph.nodes[place].get() != adapter->base) ++place;
    Builder builder(graph, place);
    builder.set_provenance(adapter->base->provenance);
    adapter->base->operands[1] =
        AddConstant(builder, Merge(*RightWeights(*adapter->base), *adapter),
                    adapter->base->operand(1)->name + "_with_lora");
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
