#include "passes/expand_integer_products.h"

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

Result<bool> ExpandIntegerProducts(Graph& graph, const PassOptions&, PassReport&) {
  std::optional<Error> problem;
  const bool changed = ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    if (node.kind != OpKind::kMatMulInteger || problem) return nullptr;
    Result<ValueList> parts = GetOpDef(node.kind).functions.decompose(node, builder);
    if (parts) return parts->front();
    problem = parts.error();
    return nullptr;
  });
  if (problem) return tl::unexpected<Error>(*problem);
  return changed;
}

}  // namespace fusec
