#include "passes/transpose_weights.h"

#include <numeric>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool ReadsWeightsAcross(const Node& node) {
  if (node.kind != OpKind::kMatMul || node.Int("transpose_b") != 0) return false;
  const Value* weights = node.operand(1);
  return IsConstant(weights) && weights->type.rank() >= 2 && IsFloat(weights->type.dtype);
}

// The permutation of `rank` axes that swaps the last two.
std::vector<int64_t> Turned(int64_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 2], perm[rank - 1]);
  return perm;
}

}  // namespace

Result<bool> TransposeWeights(Graph& graph, const PassOptions&, PassReport&) {
  DenseMap<const Value*, Value*> transposed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!ReadsWeightsAcross(*graph.nodes[i])) continue;
    Value* weights = graph.nodes[i]->operand(1);
    Value*& turned = transposed[weights];
    if (!turned) {
      Builder builder(graph, i++);
      turned = builder.Make(OpKind::kTranspose, {weights}, {{"perm", Turned(weights->type.rank())}},
                            weights->name + "_transposed");
    }
    Node& matmul = *graph.nodes[i];
    matmul.operands[1] = turned;
    matmul.attributes["transpose_b"] = int64_t{1};
  }
  return !transposed.empty();
}

}  // namespace fusec
