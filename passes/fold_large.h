#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace fusec {

// The result of a view of constants whose elements are copied as bytes: a reshape, identity,
// transpose, concatenation or slice, of any size. Returns nullopt for other ops, and for slices
// with steps along the last axis.
std::optional<TensorData> FoldView(const Node& node);

// Whether FoldLarge computes `node` faster than the interpreter, in pieces that a CPU's cache holds.
bool IsPiecewise(const Node& node);

// Whether the interpreter may fold `node`. It holds all operands and results at once, at 8 bytes
// per element; up to 48 million elements (384 MB) are allowed.
bool FitsInterpreter(const Node& node);

// Computes the result of a node whose operands are big constants piece by piece, so that little
// more than the result is in memory. Pointwise ops and matmuls are interpreted for a range of
// elements or rows at a time. Returns nullopt for other ops, which stay in the graph.
Result<std::optional<TensorData>> FoldLarge(const Node& node);

}  // namespace fusec
