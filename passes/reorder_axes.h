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

}  // namespace fusec
