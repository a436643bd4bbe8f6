#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Replaces composite ops by the ops that define them (their Decompose), until none is left.
//
//   %y = gemm(%x, %w, %b) {...}    =>    %m = matmul(%x, %w) {transpose_a = 0, transpose_b = 1}
//                                        %y = add(%m, %b)
Result<bool> Decompose(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
