#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Transposes constant weights, so that each column is contiguous along the depth (the summed axis),
// as product kernels on a GPU read them:
//
//   %y = matmul(%x, %w)      =>      %t = transpose(%w)      which fold-constants computes
//                                    %y = matmul(%x, %t) {transpose_b = 1}
//
// The result is exact.
Result<bool> TransposeWeights(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
