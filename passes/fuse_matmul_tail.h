#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// A product by constant weights with all pointwise ops of its shape behind it: residuals, gates,
// activations, several results. For targets with kernels of their own for products, where these are
// no slower than the library's at any size: f32 products of precision "highest"; and narrow ones of
// shorter numbers, where what stands behind would be a kernel of its own. Other products take what
// cuBLASLt does in one call, which may add a tensor of the product's shape behind the bias. What
// every library does in one call is left to fuse-matmul-epilogue.
Result<bool> FuseMatMulTail(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
