#include "compiler/import/subgraph.h"

namespace fusec {

std::optional<Named> FindNamed(const Scope& scope, const std::string& name) {
  if (const Sequence* sequence = scope.GetSequence(name)) return Named(*sequence);
  if (Value* value = scope.Get(name)) return Named(value);
  return std::nullopt;
}

const onnx::GraphProto* SubgraphOf(const onnx::NodeProto& node, const std::string& attribute) {
  for (const onnx::AttributeProto& candidate : node.attribute()) {
    if (candidate.name() == attribute && candidate.has_g()) return &candidate.g();
  }
  return nullptr;
}

Result<std::vector<Named>> InlineSubgraph(const onnx::GraphProto& body,
                                          const std::vector<Named>& inputs, ImportState& state,
                                          const Scope& scope) {
  if (body.input_size() != static_cast<int>(inputs.size())) {
    return ModelError("its subgraph has " + std::to_string(body.input_size()) +
                      " inputs, expected " + std::to_string(inputs.size()));
  }
  constexpr int64_t kMostNodes = 200'000;
  state.inlined_nodes += 1 + body.node_size();
  if (state.inlined_nodes > kMostNodes) {
    return ModelError("its loops and branches make a graph of more than " +
                      std::to_string(kMostNodes) + " nodes");
  }
  Scope inner(&scope);
  for (int i = 0; i < body.input_size(); ++i) {
    const std::string& name = body.input(i).name();
    if (const auto* sequence = std::get_if<Sequence>(&inputs[i])) {
      inner.Define(name, *sequence);
    } else {
      inner.Define(name, std::get<Value*>(inputs[i]));
    }
  }
  onnx::GraphProto copy = body;  // which gives up its constants' data
  ImportInitializers(copy, {}, state, inner);
  ImportNodes(copy, state, inner);
  std::vector<Named> outputs;
  for (const onnx::ValueInfoProto& output : body.output()) {
    if (!inner.Knows(output.name())) {
      return ModelError("no node of its subgraph makes \"" + output.name() + "\"");
    }
    std::optional<Named> found = FindNamed(inner, output.name());
    if (!found) return ModelError("");
    outputs.push_back(*std::move(found));
  }
  return outputs;
}

}  // namespace fusec
