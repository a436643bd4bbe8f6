#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace fusec {

struct RefitOptions {
  std::string artifact;
  std::string output;         // the folder to write; may be the artifact
  std::string weights;        // a .safetensors file, or a model with other weights
  std::string model;          // the model of the .safetensors file; "" if `weights` is a model
  std::string exported_with;  // the .safetensors file of the values that `model` has, or ""
  std::vector<std::string> freezes;  // NAME=FILE, for inputs that were frozen at compilation
  std::function<void(const std::string& stage, double fraction)> progress;  // may be null
};

struct RefitReport {
  std::vector<std::string> warnings;
  int64_t tensors = 0, changed_tensors = 0;  // constants of the artifact
  int64_t bytes = 0, changed_bytes = 0;
  double seconds = 0;
};

// Writes the artifact again with other weights. Everything else, including machine code and tuning,
// stays as in the artifact. The model with the new weights goes through import, passes, planning
// and code generation, and the resulting program must be that of the artifact, so the result is
// what compiling the model would give. Otherwise nothing is written, and the error says what
// differs, such as a number in the text of a kernel.
Result<RefitReport> RefitArtifact(const RefitOptions& options);

}  // namespace fusec
