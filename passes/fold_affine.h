#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Moves a constant scale and shift in front of linear layers, such as the end of a layer
// normalization, into the layers' weights and biases:
//
//   %s = mul(%n, %g)
//   %v = add(%s, %b)
//   %m = matmul(%v, %w)        =>    %m = matmul(%n, %w_scaled)     g[k] w[k, n]
//   %y = add(%m, %c)                 %y = add(%m, %c_shifted)       c[n] + sum over k b[k] w[k, n]
//
// where all readers of %v are products by constant weights (query, key and value, say) that nobody
// else reads, perhaps behind a reshape or a cast. A layer without bias gets one. A shift without a
// scale is left alone unless it stands behind a normalization's division: in x - 1000 most digits
// of x cancel before the product, which weights could not repeat, while g x + b with rounded g has
// that error already.
//
// Rounding: weights are computed in double and rounded to their dtype once, so that a weight
// changes by at most 2^-24 of itself for f32 (2^-11 for f16, 2^-8 for bf16). The layers stay as
// they are if the scale is NaN or infinite, or so large or small that weights leave the dtype's
// range. With --keep-lora adapters stay, too.
Result<bool> FoldAffine(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
