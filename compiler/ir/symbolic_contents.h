#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// Returns the tensor that a value holds if it depends on constants alone and the caller knows it,
// else null.
using ConstantLookup = function_ref<const TensorData*(const Value*)>;

// The elements, row-major, of a small integer or bool tensor (static shape, at most 256 elements)
// as expressions of the graph's symbols; nullopt if any of them depends on data. It follows the ops
// with which exporters compute shapes: constants, views, gathers with known indices, ops with a
// rule for symbols (IntegerFacts::symbolic; comparisons only where `ranges` decide them), and
// reductions to one element. Float tensors are followed as well while their elements are integers
// that the dtype represents exactly, because exporters count in floats. For other values,
// `constant_of` is asked. Symbolic i32 and i64 values are sizes and are assumed not to overflow.
std::optional<Exprs> SymbolicContents(const Value* value, const Ranges& ranges,
                                      ConstantLookup constant_of = nullptr);

}  // namespace fusec
