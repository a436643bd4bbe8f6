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

// Attributes of constants that stand for a cache of such a table's rows in the GPU's memory
// (--table-cache): the name of the constant whose rows it holds, and how many. The constant itself
// says that there is none, so that whoever interprets the graph reads rows where they lie.
inline constexpr const char* kCachedTable = "cached_table";
inline constexpr const char* kCachedRows = "cached_rows";
// Its elements, the beginning of RowCache in codegen_templates/device/row_cache.cuh.
inline constexpr int64_t kRowCacheElements = 4;
// A set of a cache holds as many rows, and takes as many bytes beside them.
inline constexpr int64_t kRowsOfCacheSet = 8;
inline constexpr int64_t kBytesOfCacheSet = 128;

}  // namespace fusec
