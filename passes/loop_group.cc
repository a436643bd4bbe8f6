#include "passes/loop_group.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool CanJoin(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kPointwise || op_class == OpClass::kView ||
         op_class == OpClass::kGather;
}

bool Repeats(const Node& reader, const Value* value) {
  // Bags do not share rows.
  if (reader.kind == OpKind::kSegmentReduce && reader.operand(0) == value) return false;
  const OpClass op_class = GetOpDef(reader.kind).op_class;
  const bool one_to_one =
      op_class == OpClass::kView && reader.kind != OpKind::kExpand && reader.kind != OpKind::kTile;
  return !one_to_one && reader.result()->type.ElementCount() != value->type.ElementCount();
}

}  // namespace

std::set<const Node*> GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report) {
  std::set<const Node*> group = {&root};
  const auto readers = Readers(graph);
  // From the root upwards: every reader of a node has been looked at before the node itself.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    if (group.count(&node) || !CanJoin(node)) continue;
    const Node* inside = nullptr;
    bool outside = IsOutput(graph, node.result());
    bool repeats = false;
    if (auto found = readers.find(node.result()); found != readers.end()) {
      for (const Node* reader : found->second) {
        if (!group.count(reader)) {
          outside = true;
          continue;
        }
        inside = reader;
        repeats |= Repeats(*reader, node.result());
      }
    }
    if (!inside) continue;
    if (repeats && (GetOpDef(node.kind).algebra & kExpensive)) {
      Refuse(report, readers, group, node,
             "its elements would be computed again for every element that reads them",
             "a kernel that keeps them in shared memory");
      continue;
    }
    const bool stored = GetOpDef(node.kind).op_class == OpClass::kPointwise &&
                        !node.operands.empty() &&
                        node.result()->type.shape == root.result()->type.shape;
    if (outside && !stored) {
      Refuse(report, readers, group, node, "it is read elsewhere too, so it is stored anyway",
             "its other readers in the same kernel");
      continue;
    }
    group.insert(&node);
    if (outside && !IsConvex(graph, group)) {
      group.erase(&node);
      Refuse(report, readers, group, node, kBetween, kBetweenNeeded);
    }
  }
  if (!IsConvex(graph, group)) {
    group = {&root};
    for (const Value* operand : root.operands) {
      if (operand && operand->producer)
        Refuse(report, readers, group, *operand->producer, kBetween, kBetweenNeeded);
    }
  }
  return group;
}

}  // namespace fusec
