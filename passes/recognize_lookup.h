#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Comparing ids with a list of constants and reducing over the list is a search. The list is sorted
// now, so that n comparisons an id become log2(n):
//
//   %known = constant() [40, 7, 7] : i64[3]
//   %same = equal(%ids, %known) : bool[batch, 3]          %keys = constant() [7, 40] : i64[2]
//   %hits = cast(%same) {to = i32}                   =>   %values = constant() [1, 0] : i32[2]
//   %row = arg_max(%hits) {axes = [1], ...}               %found = lookup(%keys, %ids, %values)
//   {absent = 0}
//
// The value of a key is where it stands in the list first (or last, if arg_max asks for that), 1
// for reduce_max, how often it occurs for reduce_sum; ids that the list lacks get what the
// reduction makes of zeros. Lists are of 32- or 64-bit integers along one axis.
Result<bool> RecognizeLookup(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
