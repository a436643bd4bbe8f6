#pragma once

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// Fuses a product by constant weights with the ops that make its left operand (its prologue), where
// that saves more time than it costs, and with the pointwise ops after it (its epilogue). The
// kernel computes the operand while it fills its tiles, so the operand is never stored in memory.
//
//   %a = reshape(%x)                 f32[batch, 100, 1]
//   %b = reshape(%y)                 f32[batch, 1, 24]
//   %p = mul(%a, %b)                 f32[batch, 100, 24]    =>   %h = region "matmul"(%x, ..) {
//   %r = reshape(%p)                 f32[batch, 2400]              all of this
//   %z = matmul(%r, %w)              f32[batch, 100]             }
//   %h = relu(%z)
//
// Every column of tiles computes the operand again, and the library cannot compute such a product.
// Products whose sums are not long must therefore have few columns. The pass must run after
// share-long-sums, which splits long sums, and after transpose-weights, which stores weights along
// the depth.
Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes that make the left operand of `matmul`: gathers, views, concatenations and pointwise
// ops. They must be cheap, since every column of tiles computes them again, and nothing else may
// read them. The set is empty if the operand is not many times as large as the data that it is made
// from: 8 times for long sums, and as many times as pays for the repeated work for others.
NodeSet FindPrologue(const Graph& graph, const ReaderMap& readers, const Node& matmul);

}  // namespace fusec
