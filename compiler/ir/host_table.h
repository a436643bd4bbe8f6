#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Attribute of constants that hold the rows of an embedding table, or their scales and biases, and
// stay in host memory when a GPU runs the program (--table-placement). Its value is the table's
// name in the model, so that constants of different tables are never merged. Such a table may be
// larger than memory, so passes treat it like an updatable constant (Payload is null); at compile
// time only rows that are looked up are computed from it.
inline constexpr const char* kHostTable = "host_table";

// Whether a value is such a constant. False for null.
bool IsHostTable(const Value* value);

// Attributes of constants that represent a cache of such a table's rows in GPU memory
// (--table-cache): the name of the constant whose rows it caches, and the number of rows that fit.
// The constant's own elements describe an empty cache, so that an interpreter of the graph reads
// rows from the table itself.
inline constexpr const char* kCachedTable = "cached_table";
inline constexpr const char* kCachedRows = "cached_rows";
// Number of its i32 elements: the first fields of RowCache in
// codegen_templates/device/row_cache.cuh.
inline constexpr int64_t kRowCacheElements = 4;
// Rows per set of the cache, and bytes of metadata per set.
inline constexpr int64_t kRowsOfCacheSet = 8;
inline constexpr int64_t kBytesOfCacheSet = 128;

}  // namespace fusec
