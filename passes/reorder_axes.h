#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

// What passes that compute values with other axes share (channels-last, restore-rows, order-batch,
// drop-unit-axes).
namespace fusec {

// Whether the node computes each element of its result from the elements of its operands at the
// same index, so that the order of axes does not matter.
bool KeepsPlaces(const Node& node);

// The permutation that restores the order of axes.
std::vector<int64_t> InverseOf(ArrayRef<int64_t> perm);

// The shape without its axes of one element.
Shape WithoutUnitAxes(ShapeRef shape);

// Replaces the result of every node for which `rewrite` returns a value, in the order of the graph,
// so that readers of a replaced value are visited later. A rewrite that returns null must not have
// made nodes. Returns whether anything was replaced.
bool ReplaceResults(Graph& graph, function_ref<Value*(const Node&, Builder&)> rewrite);

}  // namespace fusec
