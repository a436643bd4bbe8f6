#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace fusec {

// A model that is ready to run, by the interpreter or compiled.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Result<std::vector<TensorData>> Run(const std::vector<TensorData>& inputs) = 0;
};

using FrozenInputs = std::map<std::string, TensorData>;

Result<std::unique_ptr<Backend>> OpenInterpreter(const std::string& model_path,
                                                 const FrozenInputs& frozen);
// Compiles for the CPU of this machine, or for its GPU if `device` is "cuda", into `folder`, and loads the artifact through the C API.
Result<std::unique_ptr<Backend>> OpenCompiled(const std::string& model_path,
                                              const FrozenInputs& frozen,
                                              const std::string& folder,
                                              const std::string& device);

}  // namespace fusec
