#pragma once

#include "compiler/import/node_context.h"

namespace fusec {

// Whether an ONNX op produces or reads sequences of tensors.
bool IsSequenceOp(const std::string& onnx_op);

// Imports a sequence op. Sequences exist only during import: a sequence of known length is a list
// of values. A sequence that `node` produces is added to `scope`, a tensor to `outputs` at the
// index of the node's output. An error with an empty message has been reported already.
Result<void> ImportSequenceOp(const onnx::NodeProto& node, const NodeContext& context,
                              ImportState& state, Scope& scope, ValueList& outputs);

}  // namespace fusec
