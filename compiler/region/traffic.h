#pragma once

#include <cstddef>

#include "compiler/ir/graph.h"

namespace fusec {

// Bytes that `node` reads of its operand `i`, which is there: a gather reads a row a look-up of its
// table, but no more than all of it; other ops read all.
Expr BytesRead(const Node& node, size_t i, const Ranges& ranges);

// Bytes that a region reads of its operand `i`: what its nodes read, but no more than all of it.
Expr RegionBytesRead(const Node& region, size_t i, const Ranges& ranges);

}  // namespace fusec
