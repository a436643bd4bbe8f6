#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Removes columns that nobody reads. If all readers of a value are slices along one axis, and no
// slice reads the value's first elements, or its last ones, the value is made without them:
//
//   %y = matmul(%x, %w) : f32[batch, 12]          %y_cut = matmul(%x, %w_cut) : f32[batch, 8]
//   %h = add(%y, %b) : f32[batch, 12]       =>    %h_cut = add(%y_cut, %b_cut) : f32[batch, 8]
//   %q = slice(%h) [.., 0:4]                      %q = slice(%h_cut) [.., 0:4]
//   %k = slice(%h) [.., 4:8]                      %k = slice(%h_cut) [.., 4:8]
//
// This is done if it saves columns of a product's constant weights, columns of a constant table
// that a gather reads, or parts of a concatenation, directly or through pointwise ops that nobody
// else reads. If each slice lies in one part of a concatenation, it is taken from that part. The
// result is exact, since the other elements are computed as before. eliminate-dead-nodes removes
// tables that nobody gathers from. With --keep-lora adapters stay whole.
Result<bool> DropDeadColumns(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
