#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Folds a constant factor after a linear layer or a convolution into the layer's constant weights
// and biases, and adds two constants after a layer into one. The factor is one number, or one per
// column or channel; it may be a division, or come from a batch normalization:
//
//   %m = matmul(%x, %w)
//   %l = add(%m, %c)                 =>    %m = matmul(%x, %w_scaled)      w[k, n] s[n]
//   %t = mul(%l, %s)                       %y = add(%m, %c_scaled_shifted) c[n] s[n] + o[n]
//   %y = add(%t, %o)
//
// Reshapes and transposes may stand between the layer and the constant. A single number also passes
// through a product of two activations into the layer of its left operand, as in attention.
//
// Rounding: each product and each sum is computed in double and rounded to the weights' dtype once,
// so that a weight changes by at most 2^-24 of itself for f32 (2^-11 for f16, 2^-8 for bf16), and
// the rounding of the multiplication disappears. A layer stays as it is if another node reads its
// weights or a value between it and the constant; if a weight would overflow, or all weights of a
// column would leave the normal range; if the constant is NaN or infinite; and if it is 0, since 0
// times an overflowed sum is NaN. With --keep-lora adapters stay, too.
Result<bool> FoldScale(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
