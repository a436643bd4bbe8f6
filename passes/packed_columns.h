#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Weights [columns, depth] that stay packed in 4 bits (keep-packed-weights): constants whose first
// axis is that of the columns, and the ops that dequantize them.

// Whether `value` is such weights, computed from nothing but constants.
bool ArePackedColumns(const Value* value);
// Whether such weights of some columns are made by the same ops as those of others, from constants
// that can be put side by side or are the same.
bool AreMadeAlike(const Value* weights, const Value* others);
// The columns of all `parts`, any two of which are made alike.
Value* JoinPacked(Builder& builder, const ValueList& parts);

}  // namespace fusec
