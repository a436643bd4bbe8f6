#pragma once

#include "compiler/import/node_context.h"

namespace fusec {

// Whether a Loop or Scan has a constant trip count that is small enough to unroll: at most 1024
// iterations, and at most 20,000 nodes in all.
bool CanUnroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
               Scope& scope);

// Unrolls such a Loop or Scan. Loop-carried values become plain tensors or sequences; the scan
// outputs of all iterations are stacked. A Loop's condition must be known in every iteration; it
// may end the loop early. `results` gets one value per output of the node; it is null for a
// sequence, which is added to `scope`. An error with an empty message has been reported already.
Result<void> Unroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
                    Scope& scope, ValueList& results);

}  // namespace fusec
