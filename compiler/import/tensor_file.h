#pragma once

#include <string>

#include "compiler/ir/tensor.h"

namespace fusec {

struct NamedTensor {
  std::string name;  // may be empty
  TensorData data;
};

// Reads a file that holds a single TensorProto, as ONNX's tests store inputs and outputs
// (`input_0.pb`). Errors are of kind kInput and name the file.
Result<NamedTensor> ReadTensorFile(const std::string& path);

}  // namespace fusec
