#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Why an adapter stays, in the report's words.
inline constexpr const char* kNotFinite = "the merged weights would not be finite";

// Merges a frozen low-rank adapter (low_rank_adapter.h) into the linear layer beside it:
//
//   %sum = add(%base, %scaled)   =>    %sum = matmul(%x, %merged)     merged = W + s A B
//
// W + s A B is computed in double and rounded to the weights' dtype once, so an answer differs by
// the rounding of the weights: at most 2^-24 of each for f32; and where casts stand, by that of the
// rows and of the layer's sum to its own type. `--keep-lora` leaves the adapter as
// layers of its own. As with merge-linear, this holds where %base, %down and %delta are finite: in
// a row with an infinity, an infinity may become NaN, and NaN an infinity. An adapter stays, with a
// warning, where its part of the sum or the sum itself would have elements that are not finite.
Result<bool> MergeLora(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
