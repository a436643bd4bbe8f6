#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The values that `value` stacks along a new first axis: the operands x if it is a concatenation
// along axis 0 of reshape(x) [1, ...], and at least one x is a concatenation along another axis.
// Empty for any other value.
std::vector<const Value*> StackedParts(const Value* value);

}  // namespace fusec
