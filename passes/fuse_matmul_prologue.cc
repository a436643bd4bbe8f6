#include "passes/fuse_matmul_prologue.h"

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/fuse_matmul_tail.h"
#include "passes/share_long_sums.h"

namespace fusec {

namespace {

constexpr int64_t kManyTimes = 8;  // as many elements as what an operand is made of
// Columns up to which an operand is sooner made than stored and read again. A kernel of ours takes
// up to half as long again as the library's. On an H200, an element of TF32 is written and read in
// the time of 2 * 4 bytes * 395 TFLOP/s / 4.25 TB/s = 743 operations, which is half of those of 743
// columns; one of halves in that of 697.
constexpr int64_t kMostColumns = 512;
constexpr int64_t kFewestTerms = 64;  // of a sum, below which tiles are mostly empty

// Whether the product is one of shares of long sums: [s, m, k] by weights [s, n, k].
bool HasLongSums(const Node& node) {
  const std::optional<ProductShape> product = FindProductShape(node);
  if (!product || !IsConstant(node.operand(1))) return false;
  const Shape &a = node.operand(0)->type.shape, &weights = node.operand(1)->type.shape;
  return a.size() == 3 && weights.size() == 3 && a[0] == weights[0] &&
         product->matrices * product->k >= kFewestSharedTerms;
}

// Whether the product's kernel may make its left operand.
bool MayMakeOperand(const Node& node) {
  const std::optional<ProductShape> product = FindProductShape(node);
  if (!product || !IsConstant(node.operand(1))) return false;
  return HasLongSums(node) || (product->n <= kMostColumns && product->k >= kFewestTerms);
}

// Whether a node costs little where one of `elements` of an operand is made. A pointwise op on few
// elements is sooner done once.
bool IsCheap(const Graph& graph, const Node& node, int64_t elements) {
  const OpDef& def = GetOpDef(node.kind);
  if (node.kind == OpKind::kGather) return IsConstant(node.operand(1));
  if (def.op_class == OpClass::kPointwise)
    return (def.algebra & kExpensive) == 0 && 2 * ElementsForOnes(graph, node.result()) >= elements;
  return node.kind == OpKind::kReshape || node.kind == OpKind::kTranspose;
}

// Elements of what a group reads that is no constant.
int64_t ElementsRead(const Graph& graph, const NodeSet& group) {
  ValueSet read;
  for (const Node* node : group) {
    for (const Value* operand : node->operands) {
      if (!operand || IsConstant(operand)) continue;
      if (!operand->producer || !group.count(operand->producer)) read.insert(operand);
    }
  }
  int64_t elements = 0;
  for (const Value* value : read) elements += ElementsForOnes(graph, value);
  return elements;
}

}  // namespace

NodeSet FindPrologue(const Graph& graph, const ReaderMap& readers, const Node& matmul) {
  const int64_t elements = ElementsForOnes(graph, matmul.operand(0));
  NodeSet group = {&matmul};
  // From the product upwards: every reader of a node has been looked at before the node itself.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    if (node.results.size() != 1 || !IsCheap(graph, node, elements)) continue;
    const GroupReaders read = ReadersOf(graph, readers, group, node);
    if (read.inside && !read.outside) group.insert(&node);
  }
  group.erase(&matmul);
  if (elements < kManyTimes * ElementsRead(graph, group)) group.clear();
  return group;
}

Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions&, PassReport&) {
  std::vector<const Node*> matmuls;
  for (const auto& node : graph.nodes) {
    if (MayMakeOperand(*node)) matmuls.push_back(node.get());
  }
  bool changed = false;
  for (const Node* matmul : matmuls) {
    const ReaderMap readers = Readers(graph);
    NodeSet group = FindPrologue(graph, readers, *matmul);
    if (group.empty()) continue;
    group.insert(matmul);
    AddTail(graph, readers, matmul->result()->type.shape, group);
    MakeRegion(graph, group, RegionClass::kMatMul);
    changed = true;
  }
  return changed;
}

}  // namespace fusec
