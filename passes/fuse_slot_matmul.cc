#include "passes/fuse_slot_matmul.h"

#include "compiler/ir/op_def.h"
#include "compiler/region/slot_product.h"
#include "passes/fuse_matmul_tail.h"

namespace fusec {

namespace {

// A kernel makes rows of multiples of so many terms itself (plan_slot_matmul.cc).
constexpr int64_t kTermsOfPacks = 32;

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

}  // namespace

Result<bool> FuseSlotMatMul(Graph& graph, const PassOptions&, PassReport&) {
  std::vector<const Node*> products;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kSlotMatMul && TakesSlotKernel(*node)) products.push_back(node.get());
  }
  for (const Node* product : products) {
    const ReaderMap readers = Readers(graph);
    NodeSet group = {product};
    AddViews(graph, readers, *product, group);
    AddTail(graph, readers, product->result()->type.shape, group);
    MakeRegion(graph, group, RegionClass::kSlotMatMul);
  }
  return !products.empty();
}

}  // namespace fusec
