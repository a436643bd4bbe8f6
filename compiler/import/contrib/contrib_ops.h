#pragma once

#include "compiler/import/contrib/contrib_op.h"

namespace fusec {

// The name of onnxruntime's op domain.
inline constexpr std::string_view kContribDomain = "com.microsoft";
// The domain that the reader gives to ops of TensorFlow, which have none in a model.
inline constexpr std::string_view kTensorFlowDomain = "tensorflow";

// The names of all supported ops of com.microsoft, sorted.
std::vector<std::string> ContribOpNames();
// Whether it is a supported op of one of the two domains.
bool IsContribOp(const std::string& domain, const std::string& op_type);

// Imports `node`, an op for which IsContribOp is true and whose operands are in `scope`. `results`
// gets one value per output. libonnx has no schema of these ops, so that inputs, outputs and
// attributes are checked here.
Result<void> ImportContribOp(const onnx::NodeProto& node, NodeContext& context, ImportState& state,
                             const Scope& scope, ValueList& results);

// The ops of each file.
ArrayRef<ContribOp> ContribActivations();
ArrayRef<ContribOp> ContribAttention();
ArrayRef<ContribOp> ContribNorms();
ArrayRef<ContribOp> ContribProducts();
ArrayRef<ContribOp> ContribQuantized();
ArrayRef<ContribOp> ContribTensors();
ArrayRef<ContribOp> TensorFlowOps();

// y = gather((data - zero point) * scale, indices), which keeps its codes as a quantized table
// does.
Result<void> ImportGatherBlockQuantized(NodeContext& context, const ImportState& state);

}  // namespace fusec
