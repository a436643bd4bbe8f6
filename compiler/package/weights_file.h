#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/tensor.h"

namespace fusec {

// Writes tensors as a safetensors file, each starting at a multiple of 256 bytes of the file's
// data, straight from where their bytes are now. Returns the XXH3-128 of the file.
Result<std::string> WriteWeights(
    const std::string& path, const std::vector<std::pair<std::string, const TensorData*>>& tensors);

// Writes `bytes` to a new file; the error names the path and the system's reason (a full disk shows
// here).
Result<void> WriteFile(const std::string& path, std::string_view bytes);

}  // namespace fusec
