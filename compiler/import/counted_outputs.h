#pragma once

#include "compiler/import/counted_sizes.h"
#include "compiler/import/problems.h"
#include "compiler/ir/graph.h"

namespace fusec {

// Outputs whose sizes are run-time counts (run_time_counts.h): the graph gets the true sizes as its
// last output (Graph::run_time_sizes). An output with axes before a counted one has its elements
// moved, so that those that count come first:
//
//   return %places: i64[2, count]
//     =>  return %dense: i64[2, count], %run_time_sizes: i64[1] sizes(0 axis 1)
//
// `builder` writes at the end of the graph, as `count_of` does with it.
void AddRunTimeSizes(CountLookup count_of, Builder& builder, Problems& problems);

}  // namespace fusec
