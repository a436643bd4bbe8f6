#pragma once

#include <string>

#include "compiler/driver/tuning_file.h"

namespace fusec {

// A row for every kernel that was measured: its time, and what it moves and computes a second.
std::string SweepText(const TargetTuning& tuning);
// What was chosen for each region and size, and what came next.
std::string ChoicesText(const TargetTuning& tuning);

}  // namespace fusec
