#pragma once

#include <map>
#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// How the names of files end that list the parts of weights in several .safetensors files.
inline constexpr const char* kWeightsIndex = ".safetensors.index.json";

// All tensors of a .safetensors file, or of all files that an index of such files lists, by name.
// Their bytes stay in the memory-mapped files. Errors are of kind kInput and name the file and the
// tensor.
Result<std::map<std::string, TensorData>> ReadWeights(const std::string& path);

}  // namespace fusec
