#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Support for outputs whose size depends on the data of a run. A run writes the actual sizes into
// the vector that is the manifest's last output, and the elements to the beginning of memory that
// has room for the largest size.

// Reads `sizes` of an output; empty if the key is missing.
StatusOr<std::vector<int>> ReadSizeNumbers(const JsonValue& output);
// Checks that `sizes` of outputs refer to elements of the vector; `where` is the manifest's file.
Status CheckRunTimeSizes(const Manifest& manifest, const std::string& where);

// The actual dims of `output` after a run that wrote `sizes`; they may be at most `bounds`.
StatusOr<std::vector<int64_t>> TrueDims(const TensorSignature& output,
                                        std::span<const int64_t> bounds, const int64_t* sizes);

}  // namespace fusec::runtime
