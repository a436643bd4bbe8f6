#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What `value` puts one behind the other along a new first axis: the x of all operands
// reshape(x) [1, ...] of a concatenation on axis 0, if one of them is a concatenation on another
// axis. Empty for any other value.
std::vector<const Value*> StackedParts(const Value* value);

}  // namespace fusec
