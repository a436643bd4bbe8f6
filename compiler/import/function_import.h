#pragma once

#include "compiler/import/node_context.h"

namespace onnx {
class OpSchema;
}

namespace fusec {

// What ONNX says of the op of `node` in the model's opset; null if it has none.
const onnx::OpSchema* SchemaOf(const onnx::NodeProto& node, const ImportState& state);

// Whether ONNX itself defines the op of `node` by other ops, as it does CenterCropPad or
// HannWindow.
bool HasFunctionBody(const onnx::NodeProto& node, const ImportState& state);

// Adds the nodes of that definition for `node`, whose operands are in `scope`; `results` gets one
// value per output, null for one whose node failed. Every op without a row in op_list.def comes
// this way. Names inside the body are its own.
Result<void> ImportFunctionBody(const onnx::NodeProto& node, ImportState& state, const Scope& scope,
                                ValueList& results);

}  // namespace fusec
