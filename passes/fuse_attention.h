#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes one region of class "attention" out of two products with softmax between them, together
// with the views and pointwise ops that make queries, keys, values and masks, and the views behind
// it:
//
//   %s = matmul(%q, %k)          f32[batch, heads, tokens, tokens]
//   %p = softmax's ops of %s                                        =>  one region without a tensor
//   %y = matmul(%p, %v)          f32[batch, heads, tokens, 64]          of scores
//
// A scale of the keys becomes one of the queries, which a block reads once: in f32 that rounds no
// more than before, and in halves once less.
//
// Few keys or queries are left to fuse-block-program: 16 queries at a time would be mostly empty.
Result<bool> FuseAttention(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
