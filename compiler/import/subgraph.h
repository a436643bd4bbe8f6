#pragma once

#include <string>
#include <vector>

#include "compiler/import/graph_import.h"

namespace fusec {

// The subgraph that an attribute of `node` holds, or null.
const onnx::GraphProto* SubgraphOf(const onnx::NodeProto& node, const std::string& attribute);

// Adds the nodes of `body` once more to the graph around it, its inputs being `inputs`, and returns
// its outputs. An error without a message has been reported already.
Result<std::vector<Named>> InlineSubgraph(const onnx::GraphProto& body,
                                          const std::vector<Named>& inputs, ImportState& state,
                                          const Scope& scope);

// `length` elements of `value` from `start` on along `axis`, which is left out of the shape if
// `keeps_axis` is false (and `length` 1).
Result<Value*> PartOf(Builder& builder, Value* value, int64_t axis, const Expr& start,
                      const Expr& length, bool keeps_axis);
// `parts`, at least one, side by side along a new axis (negative: from the last of the result's).
Result<Value*> Stacked(Builder& builder, ValueList parts, int64_t axis);

}  // namespace fusec
