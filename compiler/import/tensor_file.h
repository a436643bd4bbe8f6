#pragma once

#include <string>

#include "compiler/ir/tensor.h"

namespace fusec {

struct NamedTensor {
  std::string name;  // may be empty
  TensorData data;
};

// A tensor alone in a file, as ONNX's tests keep inputs and outputs (`input_0.pb`: one
// TensorProto). Errors are of kind kInput and name the file.
Result<NamedTensor> ReadTensorFile(const std::string& path);

}  // namespace fusec
