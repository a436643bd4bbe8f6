#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

struct TuneOptions {
  std::string artifact;
  std::string device;             // as LoadProgram takes it; "" for the default
  std::vector<std::string> dims;  // "batch=1,64"; others have kTunedSizes together
  double time_limit_s = 60;
  // Called at every stage: what is going on and how far it is, 0..1.
  std::function<void(const std::string& stage, double fraction)> progress;
};

inline const std::vector<int64_t> kTunedSizes = {1, 16, 128, 1024, 4096};

struct TuneReport {
  std::string target;
  TargetTuning tuning;
  std::vector<std::string> warnings;
  int measured = 0, remembered = 0, left_out = 0;  // sizes of regions; the last for want of time
  int changed = 0;                                 // regions with another kernel than planned
  double seconds = 0;
};

// Measures the kernels that can make each region of an artifact, on the device that runs it, and
// builds the artifact again with the fastest ones. What was measured before, for any model, on the
// same device with the same software, is remembered in the kernel cache. An artifact stays as it
// was until all is done; regions for which no time was left stay as planned.
Result<TuneReport> TuneArtifact(const TuneOptions& options);

}  // namespace fusec
