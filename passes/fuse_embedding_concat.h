#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Embedding+cat: a concat whose parts are rows of tables, gathered straight to their place in the
// result; hashes, casts and selects of the ids join too, and sums, means and maxima over several
// rows. Parts that are no gathers (a dense vector) are copied by the same kernel. Concatenations of
// the same rows that do not need each other (the two towers of a retrieval model) are results of one
// kernel; those that a concatenation stacks on a new first axis are stored straight into the stack.
//
//   %id  = mod(%ids, %rows)
//   %e0  = gather(%table0, %id0) {axis = 0}      =>    %c = region(...) {class = "gather_concat"} {
//   ... } %c   = concat(%dense, %e0, ...) {axis = 1}
Result<bool> FuseEmbeddingConcat(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
