#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Merges two consecutive linear layers without an activation between them, where that is cheaper:
//
//   %m = matmul(%x, %w)          %w is [k, m]
//   %h = add(%m, %b)
//   %n = matmul(%h, %v)          %v is [m, n]    =>    %n = matmul(%x, %merged)    merged = w v
//   %y = add(%n, %c)                                   %y = add(%n, %c_shifted)    c + b v
//
// Weights and biases must be constants that nobody else reads. The merge must not add work: k n <=
// k m + m n, where the left side is the number of weights (and of multiplications per row) after
// merging, and the right side is the number before. A narrow waist (a low-rank factorization, an
// adapter) therefore stays two layers. Merges of more than 2^31 multiplications, which would take
// seconds at compile time, are left out as well.
//
// Rounding: the merged weights and the shifted bias are summed in double and rounded to the
// weights' dtype once; %h is not rounded at all. The layers stay as they are if a weight would be
// NaN or infinite.
//
// Up to rounding, the result is exact where %h is finite. A row of %x with an infinity has no
// finite element in %y before or after, but an infinity may become NaN, and NaN an infinity:
// infinity times a weight of 0 is NaN, and merging changes which weights are 0. Where a row of %h
// would overflow although %x is finite, the merged layer gives the correct, finite answer. With
// --keep-lora, adapters are not merged.
Result<bool> MergeLinear(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
