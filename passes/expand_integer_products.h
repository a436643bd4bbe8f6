#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Replaces products of 8-bit integers by exact products of f32, which are faster on GPUs, and on
// CPUs if neither factor is a constant (compiler/ops/integer_product.cc).
//
//   %y = matmul_integer(%a, %b, %z)
//     =>
//   %y = cast(matmul(sub(cast(%a), cast(%z)), cast(%b))) {to = i32}
Result<bool> ExpandIntegerProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
