#pragma once

#include <map>

#include "compiler/import/node_context.h"
#include "compiler/import/tensor_proto.h"

namespace fusec {

using Payloads = std::map<int, FilePayload>;  // raw data of initializers, by index

// Adds the initializers of a graph that are used to `state.graph` and `scope`. Tensor data is moved
// out of the protos.
void ImportInitializers(onnx::GraphProto& graph, const Payloads& payloads, ImportState& state,
                        Scope& scope);

// Adds the nodes of a graph, in the order in which they can run, and their results to `scope`.
// Problems are added to `state.problems`; nodes that need the result of a failed node are left out
// without a message.
void ImportNodes(onnx::GraphProto& graph, ImportState& state, Scope& scope);
// The same for one node. Its operands must be in `scope`.
void ImportNode(onnx::NodeProto& node, ImportState& state, Scope& scope);

// An error unless the node matches ONNX's schema: attributes of the right kinds, the right numbers
// of inputs and outputs, and no required input missing.
Result<void> CheckSchema(const onnx::NodeProto& node, const ImportState& state, const Scope& scope);

}  // namespace fusec
