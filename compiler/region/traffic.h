#pragma once

#include <cstddef>

#include "compiler/ir/graph.h"

namespace fusec {

// Bytes that `node` reads from its operand `i`, which must not be null: a gather reads one row of
// its table per lookup, but no more than the whole table; other ops read the whole operand.
Expr BytesRead(const Node& node, size_t i, const Ranges& ranges);

// Bytes that a region reads from its operand `i`: what its nodes read, but no more than the whole
// operand.
Expr RegionBytesRead(const Node& region, size_t i, const Ranges& ranges);
// Bytes that a region writes: its results, of which those in place (in_place.h) only in part.
Expr RegionBytesWritten(const Node& region);

}  // namespace fusec
