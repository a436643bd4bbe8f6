#pragma once

#include "compiler/import/node_context.h"

namespace fusec {

// Whether an op of ONNX makes or reads sequences of tensors.
bool IsSequenceOp(const std::string& onnx_op);

// Sequences carry tensors from one node to another, and are gone when the graph is imported: a
// sequence of a known length is a list of values. A sequence that `node` makes is added to `scope`,
// a tensor to `outputs` at its place. An error without a message has been reported already.
Result<void> ImportSequenceOp(const onnx::NodeProto& node, const NodeContext& context,
                              ImportState& state, Scope& scope, ValueList& outputs);

}  // namespace fusec
