#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Turns the product of a constant matrix and each matrix of a batch, such as a convolution with a
// 1x1 window, into an ordinary product of rows by weights, with the channels last:
//
//   %z = reshape(%pairs)    : [batch, k, d]       %t = transpose(%z)         : [batch, d, k]
//   %p = matmul(%W, %z)     : [batch, n, d]  =>   %q = matmul(%t, %W)^T      : [batch, d, n]
//   %s = add(%p, %bias)                           %s = add(%q, %bias_row)
//   %y = reduce_sum(%s) {axes = [2]}              %y = reduce_sum(%s) {axes = [1]}
//
// The new order of axes is propagated through pointwise ops, views and reductions, both to the
// values that `z` is made of and to the results, so that few elements are really transposed;
// windows of a convolution (unfold) are gathered in any case, and two transposes are one. The pass
// does nothing where more than a quarter as many elements would be transposed as the product's
// operand has. The result is exact except for the order of summation.
Result<bool> ChannelsLast(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
