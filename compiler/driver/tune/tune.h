#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

struct TuneOptions {
  std::string artifact;
  std::string device;  // as LoadProgram takes it; "" for the default
  // Such as "batch=1,64". Other symbols have the sizes kTunedSizes; if there are several of them,
  // they have equal sizes whose product is about these.
  std::vector<std::string> dims;
  double time_limit_s = 60;
  // Called at every stage, with its name and the share of the work that is done, 0..1.
  std::function<void(const std::string& stage, double fraction)> progress;
};

inline const std::vector<int64_t> kTunedSizes = {1, 16, 128, 1024, 4096};

struct TuneReport {
  std::string target;
  TargetTuning tuning;
  std::vector<std::string> warnings;
  // Numbers of measurements (regions at one size): done, taken from the kernel cache, and left out
  // because time ran out.
  int measured = 0, remembered = 0, left_out = 0;
  int changed = 0;  // regions that got another kernel than the planned one
  double seconds = 0;
};

// Times the kernels that can compute each region of an artifact, on the device that runs it, and
// builds the artifact again with the fastest ones. The kernel cache keeps the times, so that an
// equal region, of any model, is not measured again on the same device with the same software. The
// artifact is replaced only at the end; regions that were not measured in time stay as planned.
Result<TuneReport> TuneArtifact(const TuneOptions& options);

}  // namespace fusec
