#pragma once

#include "compiler/import/counted_sizes.h"
#include "compiler/import/problems.h"
#include "compiler/ir/graph.h"

namespace fusec {

// Handles outputs whose sizes are run-time counts (run_time_counts.h): the graph gets one more
// output, the last, that holds the true sizes (Graph::run_time_sizes). If axes of more than one
// element precede the counted axis, or several axes are counted, the valid elements of the output
// are moved to its front, so that they are contiguous:
//
//   return %places: i64[2, count]
//     =>  return %dense: i64[2, count], %run_time_sizes: i64[1] sizes(0 axis 1)
//
// `builder`, and the one that `count_of` uses, append nodes at the end of the graph.
void AddRunTimeSizes(CountLookup count_of, Builder& builder, Problems& problems);

}  // namespace fusec
