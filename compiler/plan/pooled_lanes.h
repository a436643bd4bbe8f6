#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace fusec {

// How many consecutive elements of `value`, in a region's body, a thread should compute so that it
// loads 16 bytes of each row that is pooled there (bags of an embedding table). If rows are stored
// in fewer bits than results, that gives more than 16 bytes of results; at most 16 elements.
// Returns 0 if no rows are pooled. Pooling reads several rows for each row that it stores, so that
// the width of the loads matters most.
int64_t LanesOfPooledRows(const Value* value);

// An upper bound of how many elements are folded sequentially to compute one element of `value`, in
// a region's body: a sum of a bag of 20 rows folds 20. Segments, whose lengths are data, count as
// kLongSegment.
int64_t FoldedElements(const Value* value, const Ranges& ranges);
inline constexpr int64_t kLongSegment = 1 << 20;

}  // namespace fusec
