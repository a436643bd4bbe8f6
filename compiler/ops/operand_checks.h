#pragma once

#include <vector>

#include "compiler/ir/op_def.h"

namespace fusec {

// Checks of operands that the Infer of several ops share.

// An error unless operand 0 is of floats and the attribute "axis" lies within its rank.
Result<void> CheckFloatsAlongAxis(const InferContext& context);

// The shapes of all operands; an error unless they all have the same numeric dtype.
Result<std::vector<Shape>> ShapesOfOneDtype(const InferContext& context);

}  // namespace fusec
