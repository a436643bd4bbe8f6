#include "passes/fuse_slot_matmul.h"

#include "compiler/ir/op_def.h"
#include "compiler/region/slot_product.h"
#include "passes/fuse_matmul_tail.h"

namespace fusec {

namespace {

// A kernel can compute its rows itself if their number of terms is a multiple of this
// (plan_slot_matmul.cc).
constexpr int64_t kTermsOfPacks = 32;
// The most weights of a layer whose product and product of slots are computed by one generated
// kernel. For larger matrices, the speed of the library outweighs the saved launch: on an H200,
// with 2048 rows of f16 or bf16, one kernel takes 31 us for [768, 2304], while the library and a
// second kernel take 25 us; for [1024, 1536] it is 19 us and 20 us, and 12 us and 15 us for
// [768, 768] (2026-11-30-h200-adapters-joined.txt).
constexpr int64_t kMostWeightsOfAdaptedLayer = int64_t{3} << 19;

// Adds the views that make operands of the product and that nobody else reads.
void AddViews(const Graph& graph, const ReaderMap& readers, const Node& product, NodeSet& group) {
  const bool takes_rows =
      product.operand(0)->type.shape.back().AsConstant().value_or(1) % kTermsOfPacks == 0;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    if (GetOpDef(node.kind).op_class != OpClass::kView || node.results.size() != 1) continue;
    if (!takes_rows && node.result() == product.operand(0)) continue;
    const GroupReaders read = ReadersOf(graph, readers, group, node);
    if (read.inside && !read.outside) group.insert(&node);
  }
}

// Whether the product of slots is added to a layer's product that a generated kernel should compute
// together with it (FuseMatMulTail): a layer without too many weights.
bool IsForLayer(const Graph& graph, const ReaderMap& readers, const Node& slot_product) {
  if (!MayBeSlotAddend(slot_product) || !HasOneReader(graph, readers, slot_product.result()))
    return false;
  const Node* sum = readers.at(slot_product.result())[0];
  if (sum->kind != OpKind::kAdd) return false;
  const Node* base = sum->operand(sum->operand(0) == slot_product.result() ? 1 : 0)->producer;
  if (base == nullptr || base->kind != OpKind::kMatMul ||
      !HasOneReader(graph, readers, base->result()) || base->operand(1)->type.rank() != 2 ||
      base->Int("transpose_a") != 0 ||
      base->result()->type.shape != slot_product.result()->type.shape)
    return false;
  const auto weights = base->operand(1)->type.ElementCount().AsConstant();
  return weights && *weights <= kMostWeightsOfAdaptedLayer;
}

}  // namespace

Result<bool> FuseSlotMatMul(Graph& graph, const PassOptions&, PassReport&) {
  std::vector<const Node*> products;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kSlotMatMul && TakesSlotKernel(*node)) products.push_back(node.get());
  }
  for (const Node* product : products) {
    const ReaderMap readers = Readers(graph);
    if (IsForLayer(graph, readers, *product)) continue;
    NodeSet group = {product};
    AddViews(graph, readers, *product, group);
    AddTail(graph, readers, product->result()->type.shape, group);
    MakeRegion(graph, group, RegionClass::kSlotMatMul);
  }
  return !products.empty();
}

}  // namespace fusec
