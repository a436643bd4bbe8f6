#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/tensor_files.h"

namespace fusec {

// onnxruntime as a second opinion: a python3 that has it runs the model in a process of its own.
class OnnxruntimeJudge {
 public:
  // Takes $FUSEC_PYTHON, else .deps/venv/bin/python beside the folder of the program, else python3
  // on PATH. Gives nothing if none of them can import onnxruntime and numpy. onnxruntime leaves a
  // file (.ses) in its folder for temporary files, which is `folder`; the caller removes it.
  static std::optional<OnnxruntimeJudge> Find(const std::string& folder);

  const std::string& version() const { return version_; }  // "1.31.0"
  // The outputs by name, in the model's order. An error repeats onnxruntime's message.
  Result<NamedTensors> Run(const std::string& model, const NamedTensors& inputs) const;

 private:
  std::string python_, version_;
};

}  // namespace fusec
