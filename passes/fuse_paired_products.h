#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Fuses two products of the same rows with the ops that combine them into one result of the same
// size, such as the gate of a SwiGLU layer: silu(x Wg) * (x Wu). One product by both matrices, with
// kPairedColumns columns of the one and of the other in turns, makes both numbers in one tile:
//
//   %g = matmul(%x, %a)   f16[rows, 64]      %w = [%a %b], interleaved
//   %u = matmul(%x, %b)   f16[rows, 64]  =>  %y = region(%x, %w) f16[rows, 64] {
//   %s = sigmoid(%g)                             %p = matmul(%x, %w)    f16[rows, 128]
//   %y = mul(%s, %u)                             %g, %u = slices of %p
//                                                ...
//                                            }
//
// The two products may also be slices of one (join-products). They stay apart where the library and
// a loop are faster: where sums of 16-bit or TF32 numbers are long, unless there are few rows, and
// where few columns of f32 have very long sums. The pass is for GPUs of compute capability 9.0 and
// later, on which this was measured.
//
// The result is exact: every element is computed from the same terms by the same ops.
Result<bool> FusePairedProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
