#pragma once

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// Fuses a product with long sums and the ops that make its left operand (its prologue), where that
// operand is many times as large as the data it is made of. The kernel makes the operand while it
// fills its tiles, so it is never stored in memory.
//
//   %f = gather(%x, %first)          f32[batch, 6048, 1]
//   %b = gather(%blocks, %second)    f32[batch, 6048, 16]
//   %p = mul(%f, %b)                                        =>   %y = region "matmul"(%x, ..) {
//   %s = transpose(reshape(%p))      f32[32, batch, 3024]          all of this
//   %y = matmul(%s, %w)              f32[32, batch, 512]         }
//
// Must run after share-long-sums, which splits the sums, and transpose-weights, which stores
// weights along the depth.
Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes that make the left operand of `matmul`, if the operand has at least eight times as many
// elements as the data it is made of; otherwise the set is empty. They are gathers by constant
// indices, views and cheap pointwise ops that nothing else reads, since every column of tiles
// computes them again.
NodeSet FindPrologue(const Graph& graph, const ReaderMap& readers, const Node& matmul);

}  // namespace fusec
