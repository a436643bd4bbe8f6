#pragma once

#include <string>
#include <variant>
#include <vector>

#include "compiler/import/graph_import.h"

namespace fusec {

// What a name inside a subgraph (a loop's body, a branch) stands for.
using Named = std::variant<Value*, Sequence>;

// The tensor or sequence called `name`; nullopt if there is none, or if its node failed.
std::optional<Named> FindNamed(const Scope& scope, const std::string& name);

// The subgraph that an attribute of `node` holds, or null.
const onnx::GraphProto* SubgraphOf(const onnx::NodeProto& node, const std::string& attribute);

// Adds the nodes of `body` once more to the graph around it, its inputs being `inputs`, and returns
// its outputs. An error without a message has been reported already.
Result<std::vector<Named>> InlineSubgraph(const onnx::GraphProto& body,
                                          const std::vector<Named>& inputs, ImportState& state,
                                          const Scope& scope);

}  // namespace fusec
