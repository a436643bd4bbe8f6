#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks the rank of an input, before any of its dims is read. An error is for example `input
// "dense" has rank 1, expected rank 2 ([batch, 13])`.
Status CheckRank(const TensorSignature& input, int64_t rank);

// Whether kernels need `symbol` to be at least 1, and all outputs are empty if it is 0. This is
// tested with the other symbols at the ends of their ranges only; a context checks the dims of each
// run.
bool EmptiesOutputs(const Manifest& manifest, size_t symbol);

// The value of every symbol for these dims of all inputs, whose ranks have been checked. A dim that
// is just a symbol gives its value, and a dim a*symbol + b is solved for it. The first such dim
// decides, and all other dims must agree with it. Errors are FUSEC_BAD_INPUT, for example `input
// "dense" dim 0 is 7, but "batch" is already 5 (from input "sparse")`.
StatusOr<std::vector<int64_t>> BindSymbols(const Manifest& manifest,
                                           const std::vector<std::vector<int64_t>>& dims);

}  // namespace fusec::runtime
