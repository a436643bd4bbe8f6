#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Rewrites nodes to simpler forms that mean exactly the same: views that change nothing vanish,
// views of views become one, a transposed operand of a matmul becomes its attribute, a matmul over
// one element becomes a broadcast product, a gather at one constant place becomes a slice, a
// gather_nd at constant places a gather, powers and divisions products (simplify_arithmetic.h).
//
//   %t = transpose(%w) {perm = [1, 0]}
//   %y = matmul(%x, %t) {...}          =>    %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1}
Result<bool> Canonicalize(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
