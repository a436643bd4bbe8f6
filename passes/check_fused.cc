#include "passes/check_fused.h"

namespace fusec {

Result<void> CheckFused(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant || node->kind == OpKind::kRegion) continue;
    return ModelError(PrintNode(*node) + ": is no region, as all nodes of a fused graph are");
  }
  ValueSet seen;
  for (const Value* output : graph.outputs) {
    const Node* producer = output->producer;
    if (producer && producer->kind == OpKind::kRegion && seen.insert(output).second) continue;
    return ModelError("output %" + output->name + ": expected a result of a region of its own");
  }
  return {};
}

}  // namespace fusec
