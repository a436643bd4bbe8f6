#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Independent chains of equal layers as one chain of products on a new leading axis, so that one
// kernel makes a layer of all of them: the towers of a retrieval model, the experts of a mixture.
//
//   %p = matmul(%x, %w)         f32[batch, 64]    %s = concat(reshape(%x), reshape(%y)) {axis = 0}
//   %a = relu(%p)                                 %q = matmul(%s, %stack)   f32[2, batch, 64]
//   %r = matmul(%y, %v)                       =>  %t = relu(%q)
//   %b = relu(%r)                                 %a = reshape(slice(%t))   matrix 0
//                                                 %b = reshape(slice(%t))   matrix 1
//
// A chain goes on as long as the same pointwise ops and layers follow in all of them, with
// constants of their own. Where all read one input it is not copied, as a product repeats it. Rows
// of up to a quarter less than the longest are filled with zeros, as are their weights: 0 * 0 = 0
// whatever the data. What others read is cut out of the stack, which costs loops nothing.
//
// Only chains with layers that are too large for block programs, where launches are saved in spite
// of the copies that come about (an input that no loop makes, a slice that a product reads). Where
// the library makes a product faster, for many rows, it makes the matrices one by one. Exact but for
// the order of summation.
Result<bool> StackProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
