#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// Reads and writes NumPy's file formats, little-endian. Errors are of kind kInput and name the
// file. bf16, which NumPy lacks, is a field of two raw bytes ("<V2"), as ml_dtypes writes it.

Result<TensorData> ReadNpy(const std::string& path);
// The same for bytes in memory; `name` appears in the errors.
Result<TensorData> ParseNpy(std::string_view bytes, const std::string& name);
Result<void> WriteNpy(const std::string& path, const TensorData& data);
std::string NpyBytes(const TensorData& data);

// The arrays of a zip archive as numpy.savez and savez_compressed write it, in the archive's order,
// without ".npy" in the names.
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;
Result<NamedTensors> ReadNpz(const std::string& path);

// A file with one tensor, by its ending: .npy, or .pb (a TensorProto).
Result<TensorData> ReadTensor(const std::string& path);

}  // namespace fusec
