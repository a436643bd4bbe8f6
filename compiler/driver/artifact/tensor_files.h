#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// Reads and writes NumPy's file formats, little-endian. Errors are of kind kInput and name the
// file. bf16, which NumPy lacks, is stored as two raw bytes ("<V2"), as ml_dtypes does.

Result<TensorData> ReadNpy(const std::string& path);
// Reads a .npy file from bytes in memory; `name` appears in the errors.
Result<TensorData> ParseNpy(std::string_view bytes, const std::string& name);
Result<void> WriteNpy(const std::string& path, const TensorData& data);
std::string NpyBytes(const TensorData& data);

// The arrays of an .npz file, a zip archive that numpy.savez or savez_compressed wrote, in the
// archive's order. Names are without ".npy".
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;
Result<NamedTensors> ReadNpz(const std::string& path);

// Reads a file with one tensor. Its ending decides the format: .npy, or .pb (a TensorProto).
Result<TensorData> ReadTensor(const std::string& path);

}  // namespace fusec
