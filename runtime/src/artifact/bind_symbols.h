#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The number of dims that is given for an input, before any of them is read: `input "dense" has
// rank 1, expected rank 2 ([batch, 13])`.
Status CheckRank(const TensorSignature& input, int64_t rank);

// Whether kernels take `symbol` from 1 on and all outputs are empty where it is 0, judged by the
// ends of the ranges of the others: a context looks again at the dims of a run.
bool EmptiesOutputs(const Manifest& manifest, size_t symbol);

// The value of every symbol for these dims of all inputs, whose ranks are right. A dim that is just
// a symbol binds it, one that is a*symbol + b solves for it; the first to do so wins and all others
// must agree. Errors are FUSEC_BAD_INPUT: `input "dense" dim 0 is 7, but "batch" is already 5 (from
// input "sparse")`.
StatusOr<std::vector<int64_t>> BindSymbols(const Manifest& manifest,
                                           const std::vector<std::vector<int64_t>>& dims);

}  // namespace fusec::runtime
