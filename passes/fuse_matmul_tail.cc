#include "passes/fuse_matmul_tail.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/plan/matmul_kernels.h"
#include "passes/fuse_matmul_epilogue.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Long sums of few columns are better split among blocks, which the library does.
constexpr int64_t kLongSum = 2048;
constexpr int64_t kManyColumns = 256;

// Whether each matrix of the product's batch has weights of its own, or all have the same.
bool RepeatsAllWeightsOrNone(const Node& matmul) {
  const Shape &weights = matmul.operand(1)->type.shape, &result = matmul.result()->type.shape;
  return weights.size() == 2 || (weights.size() == result.size() &&
                                 std::equal(weights.begin(), weights.end() - 2, result.begin()));
}

// Whether kernels of ours make this product: x [.., m, k] by weights [n, k], or x [s, m, k] or
// [m, k] by weights [s, n, k] of few s.
bool HasOwnKernels(const Node& node) {
  if (node.kind != OpKind::kMatMul || node.Int("transpose_a") != 0 || node.Int("transpose_b") != 1)
    return false;
  const auto shape = StaticShape(node.operand(1)->type.shape);
  if (!shape || node.result()->type.dtype != Dtype::kF32 || !RepeatsAllWeightsOrNone(node))
    return false;
  const size_t rank = shape->size();
  const int64_t n = (*shape)[rank - 2], k = (*shape)[rank - 1];
  int64_t matrices = 1;
  for (size_t i = 0; i + 2 < rank; ++i) matrices *= (*shape)[i];
  return n > 0 && k > 0 && matrices > 0 && matrices <= kMostMatrices &&
         (k <= kLongSum || n * matrices >= kManyColumns);
}

// Whether a reduction reads `node`, and nobody else, and can make it itself from a value that is
// stored anyway: then storing the node's result as well only costs.
bool IsBetterMadeByItsReader(const Graph& graph,
                             const std::map<const Value*, std::vector<Node*>>& readers,
                             const std::set<const Node*>& group, const Node& node) {
  const OpDef& def = GetOpDef(node.kind);
  if (def.op_class != OpClass::kPointwise || (def.algebra & kExpensive) != 0 ||
      IsOutput(graph, node.result()))
    return false;
  const auto found = readers.find(node.result());
  if (found == readers.end() || found->second.size() != 1 || !IsReduction(*found->second[0]))
    return false;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
    return operand == node.operand(0) && operand->producer && group.count(operand->producer) &&
           ReadersOf(graph, readers, group, operand).outside;
  });
}

// Adds the pointwise ops of the product's shape behind it, as long as nothing else lies between,
// and reshapes of what they give that nobody else reads.
void AddTail(const Graph& graph, const std::map<const Value*, std::vector<Node*>>& readers,
             const Shape& shape, std::set<const Node*>& group) {
  for (const auto& node : graph.nodes) {
    const bool is_pointwise = IsPointwise(*node, shape);
    if (!is_pointwise && node->kind != OpKind::kReshape) continue;
    const auto comes_from = [&](const Value* operand) {
      return operand && operand->producer && group.count(operand->producer) &&
             operand->type.shape == shape;
    };
    if (!std::any_of(node->operands.begin(), node->operands.end(), comes_from)) continue;
    if (!is_pointwise &&
        (readers.at(node->operand(0)).size() > 1 || IsOutput(graph, node->operand(0))))
      continue;
    group.insert(node.get());
    if (!IsConvex(graph, group)) group.erase(node.get());
  }
  std::erase_if(group, [&](const Node* node) {
    return IsBetterMadeByItsReader(graph, readers, group, *node);
  });
}

// Says why the group begins and ends where it does.
void ExplainEnds(const Graph& graph, const std::map<const Value*, std::vector<Node*>>& readers,
                 const std::set<const Node*>& group, PassReport& report) {
  for (const auto& node : graph.nodes) {
    const bool inside = group.count(node.get()) != 0;
    if (node->kind == OpKind::kConstant) continue;
    for (const auto& result : node->results) {
      const auto found = readers.find(result.get());
      if (found == readers.end()) continue;
      for (const Node* reader : found->second) {
        if (inside && !group.count(reader)) {
          report.Refuse(result.get(), *reader,
                        std::string(GetOpDef(reader->kind).text) +
                            " is no pointwise op on the elements of the product",
                        "a kernel that keeps whole rows of the product");
        } else if (!inside && group.count(reader)) {
          report.Refuse(result.get(), *reader,
                        "the kernel of a product reads its operands from memory",
                        "a kernel that makes them while it fills its tiles");
        }
      }
    }
  }
}

}  // namespace

Result<bool> FuseMatMulTail(Graph& graph, const PassOptions& options, PassReport& report) {
  std::vector<const Node*> matmuls;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kMatMul) matmuls.push_back(node.get());
  }
  bool changed = false;
  for (const Node* matmul : matmuls) {
    const auto readers = Readers(graph);
    const LibraryProduct least = FindLibraryProduct(graph, readers, *matmul);
    if (options.matmul_precision == "highest" && HasOwnKernels(*matmul)) {
      std::set<const Node*> group = least.nodes;
      AddTail(graph, readers, matmul->result()->type.shape, group);
      if (group == least.nodes) continue;
      ExplainEnds(graph, readers, group, report);
      MakeRegion(graph, group, "matmul");
    } else {
      const LibraryProduct product =
          FindLibraryProduct(graph, readers, *matmul, /*takes_addend=*/true);
      if (product.nodes == least.nodes) continue;
      ExplainLibraryProduct(graph, readers, product, report);
      MakeRegion(graph, product.nodes, "matmul");
    }
    changed = true;
  }
  return changed;
}

}  // namespace fusec
