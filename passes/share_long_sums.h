#pragma once

#include <cstdint>

#include "passes/pass_manager.h"

namespace fusec {

inline constexpr int64_t kFewestSharedTerms = 16384;  // shorter sums are not split

// Split-K: replaces a product with few columns and very long sums by many products with shorter
// sums, whose results are added, so that it occupies the whole GPU:
//
//                                                   %r = reshape(%x)         f32[batch, 128, 756]
//   %y = matmul(%x, %w)   f32[batch, 32]       =>   %s = transpose(%r)       f32[128, batch, 756]
//        %x: f32[batch, 96768]                      %p = matmul(%s, %v)      f32[128, batch, 32]
//                                                   %y = reduce_sum(%p) {axes = [0]}
//
// %v holds the weights, split in the same way. The pass takes only f32 sums for which one of these
// holds: the precision is `highest`, for which the library does not use tensor cores; there are so
// few columns that the library's tiles are mostly empty; or the product's kernel makes the operand
// itself (fuse-matmul-prologue). A loop must make the operand, since it can store it in this order
// at no cost, and the partial sums must be small beside the operand. The result is exact except for
// the order of summation.
Result<bool> ShareLongSums(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
