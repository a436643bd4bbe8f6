#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Outputs whose size only run-time data tell: a run writes their true sizes into the vector that is
// the manifest's last output, and their elements first into memory that has room for the most.

// `sizes` of an output; empty where the key is missing.
StatusOr<std::vector<int>> ReadSizeNumbers(const JsonValue& output);
// Whether `sizes` of outputs and the vector fit each other; `where` is the manifest's file.
Status CheckRunTimeSizes(const Manifest& manifest, const std::string& where);

// What the dims of `output` are, which may be `bounds` at most, after a run that wrote `sizes`.
StatusOr<std::vector<int64_t>> TrueDims(const TensorSignature& output,
                                        std::span<const int64_t> bounds, const int64_t* sizes);

}  // namespace fusec::runtime
