#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/tensor_files.h"

namespace fusec {

// Runs models with onnxruntime, to compare answers with it. A python3 that has onnxruntime runs the
// model in a process of its own.
class OnnxruntimeJudge {
 public:
  // Uses $FUSEC_PYTHON if it is set; otherwise .deps/venv/bin/python beside the folder of the
  // program, or python3 on PATH. Returns nothing if none of them can import onnxruntime and numpy.
  // `folder` is the folder for temporary files, in which onnxruntime leaves a file (.ses); the
  // caller removes it.
  static std::optional<OnnxruntimeJudge> Find(const std::string& folder);

  const std::string& version() const { return version_; }  // "1.31.0"
  // Runs the model and returns its outputs with their names, in the model's order. An error has the
  // message of onnxruntime. If `as_written`, onnxruntime runs every op as the model has it;
  // otherwise it optimizes the graph first, which may change where it rounds.
  Result<NamedTensors> Run(const std::string& model, const NamedTensors& inputs,
                           bool as_written = false) const;

 private:
  std::string python_, version_;
};

}  // namespace fusec
