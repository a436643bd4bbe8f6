#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// The reasons that the report gives for an adapter that is not merged.
inline constexpr const char* kNotFinite = "the merged weights would not be finite";
inline constexpr const char* kPacked = "the weights of the layer stay packed in 4 bits";

// Merges a frozen low-rank adapter (low_rank_adapter.h) into the linear layer beside it:
//
//   %sum = add(%base, %scaled)   =>    %sum = matmul(%x, %merged)     merged = W + s A B
//
// W + s A B is computed in double and rounded to the weights' dtype once, so an answer differs by
// the rounding of the weights, at most 2^-24 of each for f32. Where the adapter has casts, it also
// differs by the rounding of the rows and of the layer's sum to the layer's type. With
// `--keep-lora` the adapter stays as layers of its own. As with merge-linear, this holds where
// %base, %down and %delta are finite: in a row with an infinity, an infinity may become NaN, and
// NaN an infinity. An adapter is not merged, with a warning, where s A B or the merged weights
// would have elements that are not finite. Packed weights stay as they are.
Result<bool> MergeLora(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
