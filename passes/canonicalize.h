#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Rewrites nodes to simpler forms with exactly the same meaning: views that change nothing vanish,
// views of views become one view, a transpose of axes of one element a reshape, a transposed
// operand of a matmul becomes an attribute of the matmul, a matmul whose sums have one term becomes
// a broadcast multiplication, a gather at constant indices that count becomes a slice, a gather_nd at
// constant indices becomes a gather, a concatenation of all slices of a tensor becomes a transpose
// (join_slices.h), and powers and divisions become multiplications (simplify_arithmetic.h).
//
//   %t = transpose(%w) {perm = [1, 0]}
//   %y = matmul(%x, %t) {...}          =>    %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1}
Result<bool> Canonicalize(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
