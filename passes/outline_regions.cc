#include "passes/outline_regions.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/support/check.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

const char* RegionClass(const Node& node) {
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
    case OpClass::kView:
    case OpClass::kGather:
      return "pointwise";
    case OpClass::kReduction:
      return "row_reduction";
    case OpClass::kContraction:
      return "matmul";
    case OpClass::kSequential:
      return "sequential";
    default:
      break;
  }
  FUSEC_CHECK(false, "no kernel for " + PrintNode(node));
  return "";
}

// Whether output `i` needs a copy: nothing computes it, or an earlier output is the same tensor.
bool NeedsCopy(const Graph& graph, size_t i) {
  const Value* value = graph.outputs[i];
  if (!value->producer || value->producer->kind == OpKind::kConstant) return true;
  return std::find(graph.outputs.begin(), graph.outputs.begin() + static_cast<int64_t>(i), value) !=
         graph.outputs.begin() + static_cast<int64_t>(i);
}

}  // namespace

Result<bool> OutlineRegions(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!NeedsCopy(graph, i)) continue;
    Builder builder(graph);
    graph.outputs[i] =
        builder.Make(OpKind::kIdentity, {graph.outputs[i]}, {}, graph.output_names[i]);
    changed = true;
  }
  std::vector<const Node*> single;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant && node->kind != OpKind::kRegion)
      single.push_back(node.get());
  }
  for (const Node* node : single) MakeRegion(graph, {node}, RegionClass(*node));
  return changed || !single.empty();
}

}  // namespace fusec
