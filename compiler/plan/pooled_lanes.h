#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace fusec {

// How many neighbouring elements of `value`, in a region's body, a thread should make so that it
// loads 16 bytes of each row that is pooled there (bags of an embedding table): more than 16 bytes
// of results where rows are stored in fewer bits than results, at most 16 elements. 0 if no rows
// are pooled. Pools read several rows for each that they store, so that loads decide.
int64_t LanesOfPooledRows(const Value* value);

}  // namespace fusec
