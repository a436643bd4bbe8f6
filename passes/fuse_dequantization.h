#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// For products by weights that keep-packed-weights left packed: the product also gets the ops that
// dequantize the weights, and the constants that these read. It keeps the dequantized matrix as an
// operand that its body does not read, named by the attribute `dense`:
//
//   %w = region "pointwise"(%pairs, %scales) { unpack_int4, cast, mul, .. } : f32[32, 64]
//   %y = region "matmul"(%a, %w) {class = "matmul"} { matmul }
// =>
//   %w = region "pointwise"(%pairs, %scales) { unpack_int4, cast, mul, .. } : f32[32, 64]
//   %y = region "matmul"(%a, %w, %pairs, %scales) {class = "matmul", dense = 1} {
//          unpack_int4, cast, mul, .., matmul }
//
// Kernels for few rows then compute each weight where they multiply it, so that they read the
// packed codes only. Kernels for many rows, and libraries, read the operand `dense`, which costs
// less than dequantizing the weights once per tile of rows. At sizes at which no kernel reads %w,
// the kernel that makes it does not run (IdleSteps in plan_program.cc). It is made right before it
// is read, so that few dequantized matrices are in memory at once. The pass must run after all
// passes that form regions of ops behind products.
Result<bool> FuseDequantization(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
