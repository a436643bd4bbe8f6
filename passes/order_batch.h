#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes batched products in the order of batch axes in which their operands lie in memory, if
// both operands are transposed to another order. Models that put the heads of attention in front of
// the batch are an example: a thread block then has all heads of its rows.
//
//   %q = transpose(%x) {perm = [2, 0, 1, 3]}      %q = transpose(%x) {perm = [0, 2, 1, 3]}
//   %k = transpose(%y) {perm = [2, 0, 1, 3]}      %k = transpose(%y) {perm = [0, 2, 1, 3]}
//   %s = matmul(%q, %k)   [heads, batch, n, n] => %s = matmul(%q, %k)   [batch, heads, n, n]
//   %e = exp(%s)                                  %f = exp(%s)
//                                                 %e = transpose(%f) {perm = [1, 0, 2, 3]}
//
// The order is propagated through pointwise ops, reductions of the last two axes, and products, so
// that the transpose of the result meets the one with which the model restores the order. The
// result is exact.
Result<bool> OrderBatch(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
