#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes products of rows that a reshape has put into one axis with the axes that the rows had,
// together with the pointwise ops, slices of columns and sums over columns behind them. The model
// usually restores the axes later, and kernels for whole examples (attention, block programs) need
// to see which rows belong together. Heads that the same reshape puts into one axis (of
// f32[batch, 8, 4, 4] into f32[batch*8, 16]) become one axis first. Exact.
//
//   %flat = reshape(%x)         f32[batch*8, 16]
//   %m = matmul(%flat, %w)      f32[batch*8, 32]       %m = matmul(%x, %w)    f32[batch, 8, 32]
//   %y = relu(%m)               f32[batch*8, 32]  =>   %z = relu(%m)          f32[batch, 8, 32]
//   %z = reshape(%y)            f32[batch, 8, 32]
Result<bool> RestoreRows(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
