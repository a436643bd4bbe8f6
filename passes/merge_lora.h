#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Merges a frozen low-rank adapter into the linear layer beside it (LoRA, Hu et al. 2021,
// section 4.1):
//
//   %base  = matmul(%x, %W)
//   %down  = matmul(%x, %A)
//   %delta = matmul(%down, %B)        =>    %sum = matmul(%x, %merged)     merged = W + s A B
//   %scaled = mul(%delta, %s)
//   %sum   = add(%base, %scaled)
//
// where W, A, B and s are constants; a bias may be added in between, and s may follow either
// product. W + s A B is computed in double and rounded to the weights' dtype once, so an answer
// differs by the rounding of the weights: at most 2^-24 of each for f32. `--keep-lora` leaves the
// adapter swappable. As with merge-linear, this holds where %base, %down and %delta are finite: in
// a row with an infinity, an infinity may become NaN, and NaN an infinity.
Result<bool> MergeLora(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
