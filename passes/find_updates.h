#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Gives sums of sorted rows their places as well, on a GPU (region/found_sum.h), so that a kernel
// can find the updates of a place itself where updates and places are few. The launches that sort
// are then left out in a run of few.
//
//   %bags = segment_reduce(gather(%updates, %order), %bounds[0:r], %bounds[1:r + 1])
//     =>  %bags = segment_reduce(.., %places) {finds_up_to = 8192}
//
// %places is computed again, so that it joins the kernel of the sum. Several sums that share a sort
// would each find its updates anew: the limit is divided by their number. Sorts that others than
// such sums read stay as they are.
Result<bool> FindUpdates(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
