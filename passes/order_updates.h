#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Several sums over the same sorted places, such as the layers of a graph network, read the rows
// that they add up in the order of the places (sort_scatters.h). What is narrow is put into that
// order once, instead of being looked up through the order again for each row of each sum:
//
//   %rows = mul(gather(%table, %source: i64[n]), %weight: f32[n, 1])
//   %picked = gather(%rows, %order)
//     =>  %inside = cast(gather(range(rows of %table), %source))   fails as the look-up would
//         %picked = mul(gather(%table, gather(%inside, %order)), gather(%weight, %order))
//
// where the two inner gathers by %order are read by several sums, or computed at compile time since
// the places, the sources and the weights are constants. Exact: the same rows are added in the same
// order.
Result<bool> OrderUpdates(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
