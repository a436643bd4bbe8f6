#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Multiplies factors of 8 bits, the right one constant, before they are dequantized:
//
//   %y = matmul(mul(sub(cast(%a), cast(%z)), %s), mul(cast(%b), %t))
//     =>
//   %y = mul(matmul_integer(%a, %b, %z) {to = f32}, mul(%s, %t))
//
// %s is one number, and %t one number or one per column. A gemm becomes such a product and a sum.
// Small products stay (PaysInIntegers).
//
// Sums of integers are as exact as the f32 sums that they replace: each factor was rounded before,
// now the product of a sum and two scales is.
Result<bool> RecognizeIntegerProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
