#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Weights of all products x_i x_j of one vector's elements, of which half are there twice:
//
//   %a = reshape(%x) : [.., n, 1]
//   %b = reshape(%x) : [.., 1, n]
//   %outer = mul(%a, %b)                       x_i x_j for blocks of j from i's own on,
//   %flat = reshape(%outer) : [.., n * n]  =>  %pairs : [.., pairs]
//   %y = matmul(%flat, %W)                     %y = matmul(%pairs, %folded)
//
// folded = W_ij + W_ji where j lies in a later block than i, W_ij in i's own block. Blocks are as
// wide as the largest power of two up to 16 that divides n, so that what is read lies together: for
// n = 432 that leaves 51.9 % of the weights. A sum is rounded once, 2^-24 of it for f32, and stands
// where two rounded products were added.
Result<bool> FoldSymmetric(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
