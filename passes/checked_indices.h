#pragma once

#include "passes/graph_edit.h"

namespace fusec {

// Whether a value depends on constants alone, so that it can be computed at compile time.
bool DependsOnConstants(const Value* value);

// The numbers 0 .. count - 1.
Value* NumbersBelow(Builder& builder, const Expr& count, Dtype dtype, const std::string& name);

// Indices of `extent` places as numbers from 0; an index out of range fails the run. They can be
// folded if the indices and the extent are constant.
Value* CheckedIndices(Builder& builder, Value* indices, const Expr& extent,
                      const std::string& name);

// Numbers below `extent` in 32 bits, if these have room for all of them.
Value* InFewestBits(Builder& builder, Value* numbers, const Expr& extent, const Ranges& ranges,
                    const std::string& name);

}  // namespace fusec
