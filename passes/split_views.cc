#include "passes/split_views.h"

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Whether the value is an input or a view of one.
bool IsPartOfInput(const Value* value) {
  while (value->producer && GetOpDef(value->producer->kind).op_class == OpClass::kView &&
         value->producer->operands.size() == 1)
    value = value->producer->operand(0);
  return !value->producer;
}

// Whether each reader may as well compute the node's result by itself: a view, numbers made from
// the index alone, or ids of the caller in another type.
bool CostsNothing(const Node& node) {
  if (node.kind == OpKind::kConcat || node.kind == OpKind::kPad) return false;
  if (node.kind == OpKind::kCast) {
    const Dtype from = node.operand(0)->type.dtype, to = node.result()->type.dtype;
    return from != Dtype::kBool && (to == Dtype::kI64 || to == Dtype::kI32) &&
           IsPartOfInput(node.operand(0));
  }
  return GetOpDef(node.kind).op_class == OpClass::kView ||
         (GetOpDef(node.kind).op_class == OpClass::kPointwise && node.operands.empty());
}

}  // namespace

Result<bool> SplitViews(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  // Walks from the end, so that a view of a view is copied together with its reader.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = *graph.nodes[i];
    if (!CostsNothing(node)) continue;
    const auto readers = Readers(graph);
    auto found = readers.find(node.result());
    if (found == readers.end()) continue;
    const bool output = IsOutput(graph, node.result());
    for (size_t r = output ? 0 : 1; r < found->second.size(); ++r) {
      Builder builder(graph, i + 1);
      builder.set_provenance(node.provenance);
      Value* copy = builder.Make(node.kind, node.operands, node.attributes, node.result()->name);
      for (Value*& operand : found->second[r]->operands) {
        if (operand == node.result()) operand = copy;
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace fusec
