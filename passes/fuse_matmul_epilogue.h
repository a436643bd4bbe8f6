#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Makes a region of every matmul with what the matrix libraries do in the same call: reshapes of
// operands and result (the bytes stay where they are), a bias along the last axis, and relu. Other
// activations stay outside.
//
//   %m = matmul(%x, %w) {...}
//   %s = add(%m, %bias)       =>    %h = region(%x, %w, %bias) {class = "matmul"} { ... }
//   %h = relu(%s)
Result<bool> FuseMatMulEpilogue(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
