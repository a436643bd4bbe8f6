#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"

namespace fusec {

// How tensors begin that fill the gaps between others.
inline constexpr const char* kPadding = "_pad_";

// Writes tensors as a safetensors file, each starting at a multiple of 256 bytes of the file's
// data, without copying their bytes first. Returns the XXH3-128 of the file.
Result<std::string> WriteWeights(const std::string& path,
                                 ArrayRef<std::pair<std::string, const TensorData*>> tensors);

// The dtype that safetensors files call `name`, if fusec has it.
std::optional<Dtype> DtypeOfSafetensors(std::string_view name);

// Writes `bytes` to a new file. The error names the path and the system's reason, such as a full
// disk.
Result<void> WriteFile(const std::string& path, std::string_view bytes);

}  // namespace fusec
