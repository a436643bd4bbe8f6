#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Halves the work of multiplying all products x_i x_j of a vector's elements by weights: x_i x_j
// and x_j x_i are equal, so one of them is multiplied by the sum of both weights:
//
//   %a = reshape(%x) : [.., n, 1]
//   %b = reshape(%x) : [.., 1, n]
//   %outer = mul(%a, %b)                       x_i x_j for blocks of j from i's own on,
//   %flat = reshape(%outer) : [.., n * n]  =>  %pairs : [.., pairs]
//   %y = matmul(%flat, %W)                     %y = matmul(%pairs, %folded)
//
// folded is W_ij + W_ji if j lies in a later block than i, and W_ij in i's own block. Blocks are as
// wide as the largest power of two up to 16 that divides n, so that neighbouring elements are read
// together: for n = 432 that leaves 51.9 % of the weights. A sum of two weights is rounded once, by
// at most 2^-24 of it for f32.
Result<bool> FoldSymmetric(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
