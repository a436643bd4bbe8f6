#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"

namespace fusec {

// The prefix of the names of tensors that fill the gaps between others.
inline constexpr const char* kPadding = "_pad_";

// Writes tensors to a safetensors file without copying their bytes first. Each tensor starts at a
// multiple of 256 bytes of the file's data. Returns the XXH3-128 hash of the file.
Result<std::string> WriteWeights(const std::string& path,
                                 ArrayRef<std::pair<std::string, const TensorData*>> tensors);

// The dtype with this name in safetensors files; nullopt if fusec does not support it.
std::optional<Dtype> DtypeOfSafetensors(std::string_view name);

// Writes `bytes` to a new file. The error message contains the path and the reason that the system
// gives, such as a full disk.
Result<void> WriteFile(const std::string& path, std::string_view bytes);

}  // namespace fusec
