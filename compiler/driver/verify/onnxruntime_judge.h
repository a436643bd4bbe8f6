#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/tensor_files.h"

namespace fusec {

// onnxruntime as a second opinion: a python3 that has it runs the model in a process of its own.
class OnnxruntimeJudge {
 public:
  // $FUSEC_PYTHON; else .deps/venv/bin/python beside the folder of the program; else python3 on
  // PATH. Nothing if none of them can import onnxruntime and numpy. onnxruntime leaves a file
  // (.ses) in the folder for temporary files: `folder`, which the caller removes.
  static std::optional<OnnxruntimeJudge> Find(const std::string& folder);

  const std::string& version() const { return version_; }  // "1.31.0"
  // The outputs by name, in the model's order. An error says what onnxruntime said.
  Result<NamedTensors> Run(const std::string& model, const NamedTensors& inputs) const;

 private:
  std::string python_, version_;
};

}  // namespace fusec
