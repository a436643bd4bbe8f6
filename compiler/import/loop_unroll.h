#pragma once

#include "compiler/import/node_context.h"

namespace fusec {

// Whether a Loop or Scan makes a number of iterations that the model fixes, few enough to be
// written one after the other (at most 1024, and at most 20,000 nodes in all).
bool CanUnroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
               Scope& scope);

// Replaces such a Loop or Scan by its iterations, one after the other: values carried from one to
// the next are plain tensors or sequences, what each iteration gives is concatenated. A Loop's
// condition must be known in every iteration; it may end the loop. `results` gets one value per
// output of the node, and null for a sequence, which is added to `scope`. An error without a
// message has been reported already.
Result<void> Unroll(const onnx::NodeProto& node, const NodeContext& context, ImportState& state,
                    Scope& scope, ValueList& results);

}  // namespace fusec
