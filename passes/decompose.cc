#include "passes/decompose.h"

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"
#include "passes/graph_edit.h"

namespace fusec {

Result<bool> Decompose(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    const OpDef& def = GetOpDef(node.kind);
    if (def.op_class != OpClass::kComposite) continue;
    FUSEC_CHECK(def.functions.decompose != nullptr,
                "composite without a definition: " + PrintNode(node));
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    FUSEC_ASSIGN(const ValueList parts, def.functions.decompose(node, builder));
    for (size_t r = 0; r < parts.size(); ++r) {
      if (parts[r]) graph.ReplaceAllUses(node.results[r].get(), parts[r]);
    }
    // The last part takes the name of the value it stands for, so that kernels speak of the model's
    // tensors.
    if (!parts.empty() && parts[0] && parts[0]->producer && !IsConstant(parts[0])) {
      std::string name = node.results[0]->name;
      node.results[0]->name = graph.UniqueName(name + "_whole");
      parts[0]->name = name;
    }
    changed = true;
    RemoveDeadNodes(graph);
    i = static_cast<size_t>(-1);  // parts may be composite themselves, and nodes moved: look again
  }
  return changed;
}

}  // namespace fusec
