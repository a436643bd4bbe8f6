#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Fuses a concat with the embedding look-ups (gathers) that make its parts, so that table rows go
// directly to their place in the result. Hashes, casts and selects of the ids join, too, and so do
// embedding bags (sums, means and maxima over several rows) and short sums; two such parts are
// enough. The same kernel copies parts that are not gathers, such as a dense vector. Independent
// concatenations with the same number of rows (the two towers of a retrieval model) become results
// of one kernel; if a concatenation stacks them on a new first axis, they are stored directly into
// the stack.
//
//   %id0 = mod(%ids, %rows)
//   %e0  = gather(%table0, %id0) {axis = 0}        =>    %c = region(...)
//   %c   = concat(%dense, %e0, ...) {axis = 1}             {class = "gather_concat"} { ... }
Result<bool> FuseEmbeddingConcat(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
