#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Finds the least or greatest element of a whole tensor row by row first. Otherwise one block would
// have to read the tensor alone. Models with dynamic quantization do this to the input of each
// layer.
//
//   %m = reduce_max(%x) {axes = [0, 1]}  f32[]   =>   %r = reduce_max(%x) {axes = [1]}     f32[n, 1]
//                                                     %m = reduce_max(%r) {axes = [0, 1]}  f32[]
//
// Exact. Small tensors of known size stay as they are.
Result<bool> SplitReductions(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
