#include "passes/eliminate_dead_nodes.h"

#include "passes/graph_edit.h"

namespace fusec {

Result<bool> EliminateDeadNodes(Graph& graph, const PassOptions&, PassReport&) {
  return RemoveDeadNodes(graph);
}

}  // namespace fusec
