#include "passes/eliminate_common.h"

#include <algorithm>
#include <map>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

// Text that is equal for nodes that compute the same: the node's IR line without result names and
// provenance, and with the operands sorted where their order makes no difference. The line of a
// constant contains its elements or their hash.
std::string Meaning(const Node& node) {
  std::string text = PrintNode(node);
  text = text.substr(text.find(" = ") + 3);
  if (const size_t at = text.find(" @ \""); at != std::string::npos) text.resize(at);
  if (GetOpDef(node.kind).algebra & kCommutative) {
    std::vector<std::string> names;
    for (const Value* operand : node.operands) names.push_back(operand->name);
    std::sort(names.begin(), names.end());
    std::string sorted;
    for (const std::string& name : names) sorted += name + ",";
    text = text.substr(0, text.find('(')) + sorted + text.substr(text.find(')'));
  }
  return text;
}

}  // namespace

bool MergeEqualNodes(Graph& graph) {
  std::map<std::string, Node*> known;
  DenseMap<const Value*, Value*> equals;  // by removed value: the equal value that stays
  const auto follow = [&](Value*& value) {
    if (const auto found = equals.find(value); found != equals.end()) value = found->second;
  };
  for (const auto& node : graph.nodes) {
    for (Value*& operand : node->operands) follow(operand);
    if (node->kind == OpKind::kRegion) continue;
    const auto [first, is_new] = known.emplace(Meaning(*node), node.get());
    if (is_new) continue;
    for (size_t i = 0; i < node->results.size(); ++i)
      equals[node->results[i].get()] = first->second->results[i].get();
    if (node->kind == OpKind::kConstant)
      DerivationOf(first->second->result())->equals.push_back(DerivationOf(node->result()));
  }
  for (Value*& output : graph.outputs) follow(output);
  const bool changed = !equals.empty();
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

Result<bool> EliminateCommon(Graph& graph, const PassOptions&, PassReport&) {
  return MergeEqualNodes(graph);
}

}  // namespace fusec
