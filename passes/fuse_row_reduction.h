#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Grows a region around every reduction: the pointwise ops before it, further reductions over the
// same row, and the pointwise ops after it, as long as the result of every reduction is read only
// in its own row. Softmax and layer normalization become one region each by this rule.
//
//   %m = reduce_max(%x) {axes = [1], keepdims = 1}
//   %d = sub(%x, %m)
//   %e = exp(%d)                                      =>    %y = region(%x)
//   %s = reduce_sum(%e) {axes = [1], keepdims = 1}            {class = "row_reduction"} { ... }
//   %y = div(%e, %s)
Result<bool> FuseRowReduction(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
