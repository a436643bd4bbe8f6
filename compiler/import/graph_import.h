#pragma once

#include <map>

#include "compiler/import/node_context.h"
#include "compiler/import/tensor_proto.h"

namespace fusec {

using Payloads = std::map<int, FilePayload>;  // of initializers, by index

// Adds a graph's used initializers to `state.graph` and `scope`. Protos give up their data.
void ImportInitializers(onnx::GraphProto& graph, const Payloads& payloads, ImportState& state,
                        Scope& scope);

// Adds the nodes of a graph, in the order in which they can run, and their results to `scope`.
// Problems are added to `state.problems`; nodes that need the result of a failed node are left out
// without a message.
void ImportNodes(onnx::GraphProto& graph, ImportState& state, Scope& scope);
// The same for one node, whose operands are in `scope`.
void ImportNode(onnx::NodeProto& node, ImportState& state, Scope& scope);

// Whether a node has what ONNX's own schema wants: attributes of the right kinds, as many inputs
// and outputs, and no input left out that must be there.
Result<void> CheckSchema(const onnx::NodeProto& node, const ImportState& state, const Scope& scope);

}  // namespace fusec
