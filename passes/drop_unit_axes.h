#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Removes axes of one element from the rows of products by weights, and from the pointwise ops and
// reductions behind them, so that products that only differ in such axes can be joined or stacked,
// and no view stands between a product and a norm behind it:
//
//   %p = matmul(%x, %w)  f32[batch, 1, 32]      %r = reshape(%x)     f32[batch, 80]
//   %t = tanh(%p)        f32[batch, 1, 32]  =>  %p = matmul(%r, %w)  f32[batch, 32]
//                                               %s = tanh(%p)        f32[batch, 32]
//                                               %t = reshape(%s)     f32[batch, 1, 32]
//
// The result is exact.
Result<bool> DropUnitAxes(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
