#pragma once

#include <string>
#include <vector>

#include "compiler/import/graph_import.h"

namespace fusec {

// The subgraph that an attribute of `node` holds, or null.
const onnx::GraphProto* SubgraphOf(const onnx::NodeProto& node, const std::string& attribute);

// Adds a copy of the nodes of `body` to the enclosing graph, with `inputs` as the body's inputs,
// and returns its outputs. An error with an empty message has been reported already.
Result<std::vector<Named>> InlineSubgraph(const onnx::GraphProto& body,
                                          const std::vector<Named>& inputs, ImportState& state,
                                          const Scope& scope);

// `length` elements of `value` along `axis`, from `start` on. If `keeps_axis` is false, `length`
// must be 1 and the axis is removed.
Result<Value*> PartOf(Builder& builder, Value* value, int64_t axis, const Expr& start,
                      const Expr& length, bool keeps_axis);
// Stacks `parts`, at least one, along a new axis. A negative axis counts from the last axis of the
// result.
Result<Value*> Stacked(Builder& builder, ValueList parts, int64_t axis);

}  // namespace fusec
