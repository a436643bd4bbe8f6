#include "passes/outline_regions.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

Result<RegionClass> ClassOfLoneNode(const Node& node) {
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
    case OpClass::kView:
    case OpClass::kGather:
      return RegionClass::kPointwise;
    case OpClass::kReduction:
      return RegionClass::kRowReduction;
    case OpClass::kContraction:
      return RegionClass::kMatMul;
    case OpClass::kSequential:
      return node.kind == OpKind::kRecurrence ? RegionClass::kRecurrence : RegionClass::kSequential;
    default:
      break;
  }
  return ModelError(PrintNode(node) + ": no kernel computes this op; decompose goes first");
}

// Whether output `i` needs a copy: it is an input or a constant, or an earlier output is the same
// tensor.
bool NeedsCopy(const Graph& graph, size_t i) {
  const Value* value = graph.outputs[i];
  if (!value->producer || IsConstant(value)) return true;
  return std::find(graph.outputs.begin(), graph.outputs.begin() + static_cast<int64_t>(i), value) !=
         graph.outputs.begin() + static_cast<int64_t>(i);
}

}  // namespace

Result<bool> OutlineRegions(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!NeedsCopy(graph, i)) continue;
    Builder builder(graph);
    graph.outputs[i] = builder.Make(OpKind::kIdentity, {graph.outputs[i]}, {}, graph.OutputName(i));
    changed = true;
  }
  std::vector<const Node*> single;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant && node->kind != OpKind::kRegion)
      single.push_back(node.get());
  }
  for (const Node* node : single) {
    FUSEC_ASSIGN(const RegionClass region_class, ClassOfLoneNode(*node));
    MakeRegion(graph, {node}, region_class);
  }
  return changed || !single.empty();
}

}  // namespace fusec
