#include "passes/pull_normalization.h"

#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// n = (x - mean) / deviation, with one mean and one deviation per row.
struct Normalization {
  Value* x = nullptr;
  Value* mean = nullptr;
  Value* deviation = nullptr;
};

bool IsPerRow(const Value* statistic, const Value* rows) {
  return statistic->type.rank() == rows->type.rank() && statistic->type.shape.back().IsConstant(1);
}

std::optional<Normalization> Match(const Value* n) {
  const Node* div = n->producer;
  if (!div || div->kind != OpKind::kDiv || n->type.rank() < 2) return std::nullopt;
  const Node* sub = div->operand(0)->producer;
  if (!sub || sub->kind != OpKind::kSub) return std::nullopt;
  Value* x = sub->operands[0];
  const Node* mean = sub->operand(1)->producer;
  const std::vector<int64_t> last = {x->type.rank() - 1};
  const bool fits = x->type == n->type && IsPerRow(sub->operand(1), x) &&
                    IsPerRow(div->operand(1), x) && mean && mean->kind == OpKind::kReduceMean &&
                    mean->operand(0) == x && mean->Ints("axes") == last;
  if (!fits) return std::nullopt;
  return Normalization{x, sub->operands[1], div->operands[1]};
}

// The sum of each column; nullopt if one is not finite.
std::optional<MadeConstant> ColumnSums(const ConstantMatrix& weights) {
  TensorData sums(weights.data->dtype(), {weights.results()});
  for (int64_t n = 0; n < weights.results(); ++n) {
    double sum = 0;
    for (int64_t k = 0; k < weights.terms(); ++k) sum += weights.At(k, n);
    sums.SetDouble(n, sum);
    if (!std::isfinite(sums.GetDouble(n))) return std::nullopt;
  }
  Recipe recipe;
  Value* sum = recipe.Reduce(OpKind::kReduceSum, recipe.Exact(weights.constant),
                             weights.transposed ? 1 : 0, /*keepdims=*/false);
  return recipe.Finish(sum, std::move(sums));
}

}  // namespace

Result<bool> PullNormalization(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& product = *graph.nodes[i];
    const auto weights = RightWeights(product);
    const auto normalization = weights ? Match(product.operand(0)) : std::nullopt;
    auto sums = normalization ? ColumnSums(*weights) : std::nullopt;
    if (!sums) continue;
    AddProvenance(product, *product.operand(0)->producer);
    Builder builder(graph, i + 1);
    builder.set_provenance(product.provenance);
    Value* p = product.result();
    Value* constant = AddConstant(builder, *std::move(sums), product.operand(1)->name + "_sums");
    Value* t = builder.Make(OpKind::kMul, {normalization->mean, constant}, {}, p->name + "_mean");
    Value* q = builder.Make(OpKind::kSub, {p, t}, {}, p->name + "_centred");
    Value* y = builder.Make(OpKind::kDiv, {q, normalization->deviation}, {}, p->name);
    graph.ReplaceAllUses(p, y);
    q->producer->operands[0] = p;
    product.operands[0] = normalization->x;
    std::swap(p->name, y->name);
    i = builder.insert_at() - 1;
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
