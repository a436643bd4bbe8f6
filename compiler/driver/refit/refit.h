#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace fusec {

struct RefitOptions {
  std::string artifact;
  std::string output;                // the folder to write; may be the artifact
  std::string weights;               // .safetensors, or a model
  std::string model;                 // whose initializers .safetensors replace; "" with a model
  std::vector<std::string> freezes;  // NAME=FILE, of inputs that were frozen when it was compiled
  std::function<void(const std::string& stage, double fraction)> progress;  // may be null
};

struct RefitReport {
  std::vector<std::string> warnings;
  int64_t tensors = 0, changed_tensors = 0;  // that are stored
  int64_t bytes = 0, changed_bytes = 0;
  double seconds = 0;
};

// Writes the artifact again with other weights. All else, machine code and tuning too, is that of
// the artifact: the model with the new weights goes through import, passes, planning and code
// generation as when it is compiled, and must come out as the same program. So the result is what
// compiling it anew would give. The error tells what differs, as a number that is part of a
// kernel's text; then nothing is written.
Result<RefitReport> RefitArtifact(const RefitOptions& options);

}  // namespace fusec
