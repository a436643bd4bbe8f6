#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Sorts lines of more elements than a kernel sorts at once (kMostSorted, or kMostChosenFrom if few
// are wanted) part by part, and merges the parts. The merge counts for each element how many come
// before it in each part, so that it has one thread per element.
//
//   %v, %i = top_k(%x: f32[b, n]) {k = [100]}
//     =>  %pv, %pi = top_k(%x) {k = [100], part = 8192}  f32[b, ceil(n / 8192) * 100]
//         %v, %i = merge_sorted(%pv, %pi) {part = 8192, kept = [100], length = [n], k = [100]}
//
// Where all elements of more than 16 parts are wanted on a GPU, 8 parts at a time are put together
// to a larger one (merge_sorted with `group`), until there are few; or the numbers are sorted by
// their digits (sort_by_digits.h).
//
// Exact. This pass splits lines from which more than kMostSorted elements are taken: kernels of the
// CPU read lines of any length. On a GPU, split-lines splits all long lines.
Result<bool> SplitSorts(Graph& graph, const PassOptions& options, PassReport& report);

// Splits the sorts of lines from which many elements are taken, or of `all_long_lines`.
Result<bool> SplitTopK(Graph& graph, bool all_long_lines);

}  // namespace fusec
