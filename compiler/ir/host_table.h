#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Attribute of constants that hold the rows of an embedding table, or their scales and biases, and
// that lie in host memory where a GPU runs the program (--table-placement): the table's name in the
// model, so that constants of two tables are never one. Such a table may be larger than memory, so
// passes leave it alone as they do updatable constants (Payload is null); only rows that are looked
// up at compile time are computed of it.
inline constexpr const char* kHostTable = "host_table";

// Whether a value is such a constant. False of null.
bool IsHostTable(const Value* value);

}  // namespace fusec
