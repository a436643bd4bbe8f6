#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Grows a region around every reduction: what feeds it element by element, further reductions over
// the same row, and what follows element by element, as long as every reduction is read at the row
// that is being worked on. Softmax and layer normalisation fall out of it.
//
//   %m = reduce_max(%x) {axes = [1], keepdims = 1}
//   %d = sub(%x, %m)
//   %e = exp(%d)                                   =>    %y = region(%x) {class = "row_reduction"}
//   { ... } %s = reduce_sum(%e) {axes = [1], keepdims = 1} %y = div(%e, %s)
Result<bool> FuseRowReduction(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
