#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes one linear layer of two in a row without an activation, where that is cheaper:
//
//   %m = matmul(%x, %w)          %w is [k, m]
//   %h = add(%m, %b)
//   %n = matmul(%h, %v)          %v is [m, n]    =>    %n = matmul(%x, %merged)    merged = w v
//   %y = add(%n, %c)                                   %y = add(%n, %c_shifted)    c + b v
//
// where weights and biases are constants that nobody else reads, and k n <= k m + m n: so many
// weights are read, and so many products made per row, after and before. A narrow waist (a low-rank
// factorization, an adapter) stays two layers. Products of more than 2^31 terms stay as well: they
// would take seconds to make.
//
// Rounding: merged and shifted are summed in double and rounded to the weights' dtype once; %h is
// no longer rounded at all. Weights that would be no numbers stay as they are.
//
// Exact, up to rounding, where %h is finite. A row of %x with an infinity has no finite element in
// %y before or after, but what was an infinity may be NaN, and the other way round: infinity times
// a weight of 0 is NaN, and merging changes which weights are 0. A row of %h that overflows for
// finite %x gets its right, finite answer. With --keep-lora adapters stay too.
Result<bool> MergeLinear(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
