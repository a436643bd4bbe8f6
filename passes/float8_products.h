#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// With --matmul-precision fp8, rounds the factors of products by constant weights to fp8 (E4M3).
// Each row of activations and each column of weights is scaled by a power of two of its own, which
// brings its largest magnitude into 128 .. 256 (float8_factor). Each number therefore changes by at
// most 2^-4 of itself, or by at most 2^-17 of the largest number.
//
//   %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]
// =>
//   %factors = float8_factor(reduce_max(abs(%x))) : f32[batch, 1]
//   %codes   = to_e4m3(mul(%x, %factors)) : u8[batch, 256]
//   %rounded = div(from_e4m3(%codes), %factors) : f32[batch, 256]
//   %y       = matmul(%rounded, %w_rounded) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]
//
// A kernel with reductions computes codes and factors once for all products of %x; where a
// normalization or the like makes %x, the same kernel does both. Product kernels read the codes
// (fuse-matmul-prologue). They multiply the codes directly where the GPU has E4M3 products, and
// decode them first elsewhere. The answers are the same except for the order of summation.
//
// No product is rounded unless every GPU of the targets has products of E4M3.
//
// A product is not rounded where a kernel that rounds its rows would take longer than it saves:
// where it has few columns and no kernel with reductions makes its rows. A product of f16 or bf16
// is not rounded where its sums are short.
//
// A product whose error is above the budget (PassOptions::float8_budget) is not rounded. The error
// is the relative L2 distance that rounding both factors causes for rows of normally distributed
// activations; it is largest for weights whose columns have a few numbers far greater than the
// others. It is computed from the weights that the compiler has. `fusec refit` scales new weights
// by powers of two of their own, and refuses them if a different set of products is within the
// budget, since the artifact would need other kernels.
Result<bool> Float8Products(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
