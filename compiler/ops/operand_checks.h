#pragma once

#include <vector>

#include "compiler/ir/op_def.h"

namespace fusec {

// What Infer of several ops asks of their operands.

// Operand 0 is of floats, and the attribute "axis" lies within its rank.
Result<void> CheckFloatsAlongAxis(const InferContext& context);

// The shapes of all operands, which are of one dtype of numbers.
Result<std::vector<Shape>> ShapesOfOneDtype(const InferContext& context);

}  // namespace fusec
