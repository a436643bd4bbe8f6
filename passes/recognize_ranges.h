#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Constants of a comparison that count along one axis become a range, as which a kernel computes
// them from the index, and can tell up to which index the comparison holds. torch.export folds the
// positions of a static cache into such constants:
//
//   %at = constant() [0, 1, 2, 3] : i64[4, 1]
//   %is_past = less(%at, %end)
// =>
//   %count = range() {start = 0, delta = 1, length = [4]} : i64[4]
//   %at = reshape(%count) {shape = [4, 1]} : i64[4, 1]
//   %is_past = less(%at, %end)
//
// Lists of equal, which recognize-lookup searches in, stay.
Result<bool> RecognizeRanges(Graph& graph, const PassOptions& options, PassReport& report);

// Whether `value` is a range, or a view of one, which only comparisons with data of the run read,
// or views for these. It stays a range.
bool IsRangeToCompare(const Graph& graph, const Value* value);

}  // namespace fusec
