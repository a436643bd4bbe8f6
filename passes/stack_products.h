#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Stacks independent chains of equal layers into one chain of products with a new leading axis, so
// that one kernel computes the same layer of all chains. Examples are the towers of a retrieval
// model and the experts of a mixture.
//
//   %p = matmul(%x, %w)         f32[batch, 64]    %s = concat(reshape(%x), reshape(%y)) {axis = 0}
//   %a = relu(%p)                                 %q = matmul(%s, %stack)   f32[2, batch, 64]
//   %r = matmul(%y, %v)                       =>  %t = relu(%q)
//   %b = relu(%r)                                 %a = reshape(slice(%t))   matrix 0
//                                                 %b = reshape(slice(%t))   matrix 1
//
// A chain continues as long as the same pointwise ops and layers follow in all chains; each has its
// own constants. An input that all chains share is not copied, since a product can broadcast it.
// Rows that are up to a quarter shorter than the longest are padded with zeros, and so are their
// weights: the added terms are 0 * 0 = 0 whatever the data. Other readers of a value get a slice of
// the stack, which costs nothing where the reader is a loop.
//
// The pass takes only chains with layers that are too large for block programs, and only where it
// saves launches in spite of the copies that it adds (of an input that no loop makes, or of a slice
// that a product reads). For many rows, where the library is faster, the library computes the
// matrices one by one. The result is exact except for the order of summation.
Result<bool> StackProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
