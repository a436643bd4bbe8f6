#pragma once

#include "compiler/import/node_context.h"

namespace onnx {
class OpSchema;
}

namespace fusec {

// ONNX's schema of the op of `node` in the model's opset; null if there is none.
const onnx::OpSchema* SchemaOf(const onnx::NodeProto& node, const ImportState& state);

// Whether ONNX's schema defines the op of `node` as a function of other ops, such as CenterCropPad
// or HannWindow.
bool HasFunctionBody(const onnx::NodeProto& node, const ImportState& state);

// Imports `node`, whose operands are in `scope`, as the nodes of that function body. `results` gets
// one value per output, null for an output whose node failed. Ops without an importer in fusec
// (op_list.def, expansion_list.def) are imported this way. Tensor names inside the body are local
// to it.
Result<void> ImportFunctionBody(const onnx::NodeProto& node, ImportState& state, const Scope& scope,
                                ValueList& results);

// The same for a body that ONNX's schema does not know. Attributes that `node` leaves out have the
// defaults that `function` gives.
void ImportAsFunction(onnx::FunctionProto function, const onnx::NodeProto& node, ImportState& state,
                      const Scope& scope, ValueList& results);

}  // namespace fusec
