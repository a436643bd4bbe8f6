#pragma once

#include <cstdint>

#include "passes/pass_manager.h"

namespace fusec {

inline constexpr int64_t kFewestSharedTerms = 16384;  // of a sum

// A product of few columns and very long sums as many products of shorter ones, whose results are
// added, so that all of a GPU takes part:
//
//                                                   %r = reshape(%x)         f32[batch, 128, 756]
//   %y = matmul(%x, %w)   f32[batch, 32]       =>   %s = transpose(%r)       f32[128, batch, 756]
//        %x: f32[batch, 96768]                      %p = matmul(%s, %v)      f32[128, batch, 32]
//                                                   %y = reduce_sum(%p) {axes = [0]}
//
// %v are the weights, cut likewise. Only sums of f32: in f32 (`highest`), for which the library has
// no tensor cores, of so few columns that its tiles are mostly empty, or of an operand that the
// product's kernel makes itself (fuse-matmul-prologue). Only of operands that a loop makes, since
// that stores them in this order for free, and only where the parts are little beside the operand.
// Exact but for the order of summation.
Result<bool> ShareLongSums(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
