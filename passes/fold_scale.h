#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Multiplies a constant behind a linear layer or a convolution (one number, or one per column or
// channel; a division, or what a batch normalization comes to) into the layer's constant weights
// and biases, and adds two constants behind a layer into one:
//
//   %m = matmul(%x, %w)
//   %l = add(%m, %c)                 =>    %m = matmul(%x, %w_scaled)      w[k, n] s[n]
//   %t = mul(%l, %s)                       %y = add(%m, %c_scaled_shifted) c[n] s[n] + o[n]
//   %y = add(%t, %o)
//
// The constant may stand behind reshapes and transposes; one number also passes through a product
// of two activations into the layer of its left factor, as attention has it.
//
// Rounding: each product is made in double and rounded to the weights' dtype once, as is each sum,
// so that a weight changes by at most 2^-24 of itself for f32 (2^-11 for f16, 2^-8 for bf16) and
// the multiplication's own rounding is gone. A layer stays as it is where something else reads its
// weights or what is between, where a weight would overflow or all weights of a column would leave
// the normal range, where the constant is no number, and where it is 0, since 0 times an overflowed
// sum is NaN. With --keep-lora adapters stay too.
Result<bool> FoldScale(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
