#include "passes/check_fused.h"

#include <set>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The passes that make regions of a class, each to be tried; outline-regions makes those of one
// node.
std::vector<std::string> PassesOf(const std::string& region_class) {
  if (region_class == "attention") return {"fuse-attention"};
  if (region_class == "block_program") return {"fuse-block-program"};
  if (region_class == "gather_concat") return {"fuse-embedding-concat"};
  if (region_class == "matmul") return {"fuse-matmul-epilogue", "fuse-matmul-tail"};
  if (region_class == "pointwise") return {"fuse-pointwise"};
  if (region_class == "row_reduction") return {"fuse-row-reduction"};
  return {"outline-regions"};
}

// Whether `pass` makes this region of its body alone.
Result<bool> Makes(const std::string& pass, const Node& region) {
  const std::unique_ptr<Graph> body = region.body->Clone();
  PassManager manager;
  FUSEC_TRY(manager.Run(*body, {pass, "outline-regions"}));
  const Node* made = nullptr;
  for (const auto& node : body->nodes) {
    if (node->kind == OpKind::kConstant) continue;
    if (made != nullptr) return false;
    made = node.get();
  }
  return made != nullptr && made->attributes == region.attributes;
}

Result<bool> IsMadeByFusion(const Node& region) {
  if (RemoveDeadNodes(*region.body->Clone())) return false;
  for (const std::string& pass : PassesOf(region.Get<std::string>("class"))) {
    FUSEC_ASSIGN(const bool makes, Makes(pass, region));
    if (makes) return true;
  }
  return false;
}

}  // namespace

Result<void> CheckFused(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConstant) continue;
    if (node->kind != OpKind::kRegion)
      return ModelError(PrintNode(*node) + ": is no region, as all nodes of a fused graph are");
    FUSEC_ASSIGN(const bool is_made, IsMadeByFusion(*node));
    if (!is_made) {
      return ModelError(PrintNode(*node) + ": fusion makes no region of class \"" +
                        node->Get<std::string>("class") + "\" with this body");
    }
  }
  std::set<const Value*> seen;
  for (const Value* output : graph.outputs) {
    const Node* producer = output->producer;
    if (producer && producer->kind == OpKind::kRegion && seen.insert(output).second) continue;
    return ModelError("output %" + output->name + ": expected a result of a region of its own");
  }
  return {};
}

}  // namespace fusec
