#pragma once

#include <map>
#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// Every tensor of a .safetensors file by name; the bytes stay in the mapped file. Errors are of
// kind kInput and name file and tensor.
Result<std::map<std::string, TensorData>> ReadWeights(const std::string& path);

}  // namespace fusec
