#pragma once

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// Fuses a product by constant weights with the ops that make its left operand (its prologue), where
// that spares more time than it costs, and with the pointwise ops behind it (its epilogue). The
// kernel makes the operand while it fills its tiles, so it is never stored in memory.
//
//   %a = reshape(%x)                 f32[batch, 100, 1]
//   %b = reshape(%y)                 f32[batch, 1, 24]
//   %p = mul(%a, %b)                 f32[batch, 100, 24]    =>   %h = region "matmul"(%x, ..) {
//   %r = reshape(%p)                 f32[batch, 2400]              all of this
//   %z = matmul(%r, %w)              f32[batch, 100]             }
//   %h = relu(%z)
//
// Every column of tiles makes the operand again, and the library is no alternative to the kernel:
// products that are not of long sums must have few columns. Must run after share-long-sums, which
// splits long sums, and transpose-weights, which stores weights along the depth.
Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes that make the left operand of `matmul`: gathers, views, concatenations and cheap
// pointwise ops that nothing else reads, since every column of tiles computes them again. The set
// is empty if the operand is not many times as large as the data it is made of: 8 times that of
// long sums, and of others as much as pays for what it costs.
NodeSet FindPrologue(const Graph& graph, const ReaderMap& readers, const Node& matmul);

}  // namespace fusec
