#include "passes/fuse_sequential.h"

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "passes/eliminate_common.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool ComputesItsOperands(const Node& node) {
  switch (node.kind) {
    case OpKind::kCumProd:
    case OpKind::kCumSum:
    case OpKind::kDigitCounts:
    case OpKind::kOrderByDigit:
    case OpKind::kScatterND:
    case OpKind::kTopK:
      return true;
    case OpKind::kScatterElements:
      return !IsInPlace(node);
    default:
      return false;
  }
}

// The node, and the cheap nodes on which it depends and on which nothing else does.
NodeSet GroupOf(const Graph& graph, const Node& node) {
  const ReaderMap readers = Readers(graph);
  NodeSet group = {&node};
  std::vector<const Node*> work = {&node};
  while (!work.empty()) {
    const Node* reader = work.back();
    work.pop_back();
    for (const Value* operand : reader->operands) {
      const Node* maker = operand == nullptr ? nullptr : operand->producer;
      if (maker == nullptr || group.count(maker) != 0 || !IsCheapByElement(*maker)) continue;
      if (ReadersOf(graph, readers, group, *maker).outside) continue;
      group.insert(maker);
      work.push_back(maker);
    }
  }
  return group;
}

}  // namespace

Result<bool> FuseSequential(Graph& graph, const PassOptions&, PassReport&) {
  std::vector<const Node*> all;
  for (const auto& node : graph.nodes) {
    if (ComputesItsOperands(*node)) all.push_back(node.get());
  }
  bool changed = false;
  for (const Node* node : all) {
    const NodeSet group = GroupOf(graph, *node);
    if (group.size() == 1) continue;
    MergeEqualNodes(*MakeRegion(graph, group, RegionClass::kSequential)->body);
    changed = true;
  }
  return changed;
}

}  // namespace fusec
