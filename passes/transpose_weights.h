#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Stores constant weights the way products on a GPU read them, a column's along the depth:
//
//   %y = matmul(%x, %w)      =>      %t = transpose(%w)      which fold-constants computes
//                                    %y = matmul(%x, %t) {transpose_b = 1}
//
// Exact.
Result<bool> TransposeWeights(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
