#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Comparing ids with a list of constants and reducing over the list is a search. The pass sorts the
// list at compile time, so that n comparisons per id become log2(n):
//
//   %known = constant() [40, 7, 7] : i64[3]            %keys = constant() [7, 40] : i64[2]
//   %same = equal(%ids, %known) : bool[batch, 3]       %values = constant() [1, 0] : i32[2]
//   %hits = cast(%same) {to = i32}                =>   %found = lookup(%keys, %ids, %values)
//   %row = arg_max(%hits) {axes = [1], ...}                       {absent = 0}
//
// The value of a key is its first place in the list for arg_max (or its last, if arg_max asks for
// that), 1 for reduce_max, and the number of its places for reduce_sum. Ids that are not in the
// list get the reduction's result for zeros. Lists hold 32- or 64-bit integers along one axis.
Result<bool> RecognizeLookup(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
