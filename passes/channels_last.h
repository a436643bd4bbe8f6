#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes a product of a constant matrix by each matrix of a batch, such as a convolution whose
// window is one element, an ordinary product of rows, with the channels last:
//
//   %z = reshape(%pairs)    : [batch, k, d]       %t = transpose(%z)         : [batch, d, k]
//   %p = matmul(%W, %z)     : [batch, n, d]  =>   %q = matmul(%t, %W)^T      : [batch, d, n]
//   %s = add(%p, %bias)                           %s = add(%q, %bias_row)
//   %y = reduce_sum(%s) {axes = [2]}              %y = reduce_sum(%s) {axes = [1]}
//
// The other order is carried on through pointwise ops, reshapes and reductions, up to what `z` is
// made of and down to the results, so that few elements are transposed: the pass does nothing where
// they would be more than a quarter of the product's operand. The result is exact except for the
// order of summation.
Result<bool> ChannelsLast(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
