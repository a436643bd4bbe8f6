#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace fusec {

// Whether the interpreter may fold `node`: it holds all operands and results at once, at 8 bytes an
// element, of which there may be 48 million (384 MB).
bool FitsInterpreter(const Node& node);

// The result of a node of big constants, made piece by piece, so that little more is in memory than
// the result itself: views by moving bytes, element-wise ops and matmuls by interpreting a range of
// elements or rows at a time. nullopt for other ops, which then stay in the graph.
Result<std::optional<TensorData>> FoldLarge(const Node& node);

}  // namespace fusec
