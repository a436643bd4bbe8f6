#include "passes/decompose.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

using Nodes = std::vector<std::unique_ptr<Node>>;

// The last part takes the name of the value that it replaces, so that kernels use the model's
// names.
void PassNameOn(Graph& graph, Value* whole, Value* part) {
  if (!part || !part->producer || IsConstant(part)) return;
  const std::string name = whole->name;
  graph.Rename(whole, name + "_whole");
  graph.Rename(part, name);
}

}  // namespace

Result<bool> Decompose(Graph& graph, const PassOptions&, PassReport&) {
  const auto is_composite = [](const auto& node) {
    return GetOpDef(node->kind).op_class == OpClass::kComposite;
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_composite)) return false;
  graph.RememberNames();
  Nodes waiting = std::exchange(graph.nodes, {});  // the next one last
  std::reverse(waiting.begin(), waiting.end());
  DenseMap<const Value*, Value*> parts_of;  // by result of a composite: its replacement
  const auto follow = [&](Value*& value) {
    for (auto it = parts_of.find(value); it != parts_of.end(); it = parts_of.find(value))
      value = it->second;
  };
  Nodes wholes;  // the composites, whose results are the keys of parts_of
  while (!waiting.empty()) {
    std::unique_ptr<Node> node = std::move(waiting.back());
    waiting.pop_back();
    for (Value*& operand : node->operands) follow(operand);
    if (!is_composite(node)) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    const OpDef& def = GetOpDef(node->kind);
    FUSEC_CHECK(def.functions.decompose != nullptr,
                "composite without a definition: " + PrintNode(*node));
    const size_t first_part = graph.nodes.size();
    Builder builder(graph);
    builder.set_provenance(node->provenance);
    FUSEC_ASSIGN(const ValueList parts, def.functions.decompose(*node, builder));
    for (size_t r = 0; r < parts.size(); ++r) {
      if (parts[r]) parts_of[node->results[r].get()] = parts[r];
    }
    if (!parts.empty()) PassNameOn(graph, node->result(), parts[0]);
    wholes.push_back(std::move(node));
    // Parts may be composite themselves.
    while (graph.nodes.size() > first_part) {
      waiting.push_back(std::move(graph.nodes.back()));
      graph.nodes.pop_back();
    }
  }
  for (Value*& output : graph.outputs) follow(output);
  graph.ForgetNames();
  RemoveDeadNodes(graph);
  return true;
}

}  // namespace fusec
