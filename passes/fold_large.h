#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace fusec {

// Whether the interpreter may fold `node`. It holds all operands and results at once, at 8 bytes
// per element; up to 48 million elements (384 MB) are allowed.
bool FitsInterpreter(const Node& node);

// The result of a node whose operands are big constants, made piece by piece, so that little more
// than the result is in memory. Views move bytes; pointwise ops and matmuls interpret a range of
// elements or rows at a time. Other ops give nullopt and stay in the graph.
Result<std::optional<TensorData>> FoldLarge(const Node& node);

}  // namespace fusec
