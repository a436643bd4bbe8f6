#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A tensor of a .safetensors file: 8 bytes little endian header size, a JSON header, then the data.
struct StoredTensor {
  std::string dtype;  // the format's spelling: "F32", "BF16", "BOOL"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // inside the given file
};

// Returns all tensors by name. Header and offsets are checked against the size of the file;
// `file_name` is for errors.
StatusOr<std::map<std::string, StoredTensor>> ReadSafetensors(std::span<const std::byte> file,
                                                              const std::string& file_name);

}  // namespace fusec::runtime
