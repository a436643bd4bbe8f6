#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

// A row for every kernel that was measured: its time, and what it moves and computes a second.
std::string SweepText(const TargetTuning& tuning);

struct TimedChoice {
  std::string words;  // "library", "block 128, 4 rows"
  double microseconds = 0;
};
// What was chosen for a region at one size, and what came next.
struct TunedChoice {
  std::string kernel;
  DimValues dims;
  TimedChoice chosen;
  std::optional<TimedChoice> runner_up;
  double planned_microseconds = 0;  // of the kernel planned without measuring
};
std::vector<TunedChoice> ChoicesOf(const TargetTuning& tuning);
std::string ChoicesText(const TargetTuning& tuning);

}  // namespace fusec
