#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes one region of class "attention" out of two products with pointwise ops and possibly a
// softmax between them, the views and pointwise ops that make queries, keys, values and masks, and
// the views after the second product:
//
//   %s = matmul(%q, %k)          f32[batch, heads, tokens, tokens]
//   %p = softmax's ops of %s                                        =>  one region without a tensor
//   %y = matmul(%p, %v)          f32[batch, heads, tokens, 64]          of scores
//
// A scale of the keys moves to the queries, which a thread block reads only once. The number of
// roundings stays the same in f32, and is one less in f16 and bf16.
//
// Two linear layers with an activation between them are not taken for attention: their "keys" and
// "values" would be weights.
//
// Attention with few keys or queries is left to fuse-block-program where tiles of 16 would be
// mostly empty (an estimate of cycles decides), or where a block program makes what it reads as
// well.
Result<bool> FuseAttention(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
