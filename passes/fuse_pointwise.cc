#include "passes/fuse_pointwise.h"

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "passes/eliminate_common.h"
#include "passes/graph_edit.h"
#include "passes/loop_group.h"

namespace fusec {

Result<bool> FusePointwise(Graph& graph, const PassOptions&, PassReport& report) {
  bool changed = false;
  while (true) {
    // The last node that is in no region yet, so no unfused node reads it.
    const Node* root = nullptr;
    for (const auto& node : graph.nodes) {
      const OpClass op_class = GetOpDef(node->kind).op_class;
      if (op_class == OpClass::kPointwise || op_class == OpClass::kView ||
          op_class == OpClass::kGather || IsInPlace(*node))
        root = node.get();
    }
    if (!root) return changed;
    const Node* region =
        MakeRegion(graph, GrowLoopGroup(graph, *root, report), RegionClass::kPointwise);
    // Readers got copies of what costs nothing (split-views); one is enough in a loop.
    MergeEqualNodes(*region->body);
    changed = true;
  }
}

}  // namespace fusec
