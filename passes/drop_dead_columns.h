#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Does not compute what nobody reads. Where all readers of a value are slices along one axis that
// leave out elements before the first or behind the last they read, the value is made without them:
//
//   %y = matmul(%x, %w) : f32[batch, 12]          %y_cut = matmul(%x, %w_cut) : f32[batch, 8]
//   %h = add(%y, %b) : f32[batch, 12]       =>    %h_cut = add(%y_cut, %b_cut) : f32[batch, 8]
//   %q = slice(%h) [.., 0:4]                      %q = slice(%h_cut) [.., 0:4]
//   %k = slice(%h) [.., 4:8]                      %k = slice(%h_cut) [.., 4:8]
//
// if that saves columns of a product's constant weights, columns of a constant table behind a
// gather, or parts of a concatenation, directly or through element-wise ops that nobody else reads.
// Where each slice lies in one part of a concatenation, it is taken from the part. Exact: what is
// left is computed as before. Tables that nobody gathers from are eliminate-dead-nodes' work. With
// --keep-lora adapters stay whole.
Result<bool> DropDeadColumns(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
