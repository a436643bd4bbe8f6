#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace fusec {

// How many neighbouring elements of `value`, in a region's body, a thread should make so that it
// loads 16 bytes of each row that is pooled there (bags of an embedding table): more than 16 bytes
// of results where rows are stored in fewer bits than results, at most 16 elements. 0 if no rows
// are pooled. Pools read several rows for each that they store, so that loads decide.
int64_t LanesOfPooledRows(const Value* value);

// How many elements the ops behind an element of `value`, in a region's body, fold one after the
// other, at most: the sum of a bag of 20 rows is made of 20. Segments, whose lengths are data,
// count as kLongSegment.
int64_t FoldedElements(const Value* value, const Ranges& ranges);
inline constexpr int64_t kLongSegment = 1 << 20;

}  // namespace fusec
