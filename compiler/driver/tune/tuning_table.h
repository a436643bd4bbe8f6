#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

// A table with a row for every kernel that was measured: its time, GB/s and TFLOP/s.
std::string SweepText(const TargetTuning& tuning);

struct TimedChoice {
  std::string words;  // "library", "block 128, 4 rows"
  double microseconds = 0;
};
// The kernel that was chosen for a region at one size, and the next fastest one.
struct TunedChoice {
  std::string kernel;
  DimValues dims;
  TimedChoice chosen;
  std::optional<TimedChoice> runner_up;
  double planned_microseconds = 0;  // time of the kernel that was planned without measuring
};
std::vector<TunedChoice> ChoicesOf(const TargetTuning& tuning);
std::string ChoicesText(const TargetTuning& tuning);

}  // namespace fusec
