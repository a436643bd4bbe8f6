#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes products of rows by constant weights products of factors that are rounded to fp8 (E4M3),
// with --matmul-precision fp8. A row of activations is rounded in a unit of its own, and so is a column
// of weights: powers of two, in which the greatest magnitude is 128 to 256 (float8_factor). So each
// number is off by 2^-4 of itself at most, or by 2^-18 of the greatest.
//
//   %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]
// =>
//   %factors = float8_factor(reduce_max(abs(%x))) : f32[batch, 1]
//   %codes   = to_e4m3(mul(%x, %factors)) : u8[batch, 256]
//   %rounded = div(from_e4m3(%codes), %factors) : f32[batch, 256]
//   %y       = matmul(%rounded, %w_rounded) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]
//
// A kernel with reductions makes codes and factors once for all products of %x, with the
// normalization or the like that makes %x itself. Kernels of products read the codes
// (fuse-matmul-prologue) and multiply them as they are, where a GPU has such products; others
// decode them. The answers are the same, but for the order of sums.
//
// All products stay as they are unless every GPU of the targets has products of E4M3.
//
// A product stays as it is where a kernel that rounds its rows would take longer than it saves:
// that is one of few columns whose rows nothing with a reduction makes. One of halves stays where
// its sums are short.
//
// A product whose error is above the budget (PassOptions::float8_budget) stays as it is. The error
// is the relative L2 distance that rounding both factors makes for rows of normally distributed
// activations; weights whose columns have a few far greater numbers than the others lose most. It
// is of the weights that the compiler has: fusec refit rounds other weights in units of their own,
// and refuses those for which other products are within the budget, as kernels differ then.
Result<bool> Float8Products(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
