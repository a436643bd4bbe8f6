#pragma once

#include <map>
#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// All tensors of a .safetensors file, by name. Their bytes stay in the memory-mapped file. Errors
// are of kind kInput and name the file and the tensor.
Result<std::map<std::string, TensorData>> ReadWeights(const std::string& path);

}  // namespace fusec
