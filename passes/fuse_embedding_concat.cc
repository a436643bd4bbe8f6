#include "passes/fuse_embedding_concat.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "passes/graph_edit.h"
#include "passes/loop_group.h"

namespace fusec {

Result<bool> FuseEmbeddingConcat(Graph& graph, const PassOptions&, PassReport& report) {
  bool changed = false;
  std::vector<const Node*> concats;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kConcat) concats.push_back(node.get());
  }
  for (const Node* concat : concats) {
    PassReport attempt = report;
    const std::set<const Node*> group = GrowLoopGroup(graph, *concat, attempt, /*pools=*/true);
    const bool gathers = std::any_of(group.begin(), group.end(), [](const Node* node) {
      return GetOpDef(node->kind).op_class == OpClass::kGather;
    });
    // A concat of a concat is planned from the outer one.
    const bool nested = std::any_of(group.begin(), group.end(), [&](const Node* node) {
      return node != concat && node->kind == OpKind::kConcat;
    });
    if (!gathers || nested) continue;
    report = attempt;
    const auto readers = Readers(graph);
    if (const auto found = readers.find(concat->result()); found != readers.end()) {
      for (const Node* reader : found->second) {
        report.Refuse(concat->result(), *reader,
                      "the concatenation is stored once, instead of gathered again for every "
                      "element that is made of it",
                      "a block that keeps a row of it in shared memory");
      }
    }
    MakeRegion(graph, group, "gather_concat");
    changed = true;
  }
  return changed;
}

}  // namespace fusec
