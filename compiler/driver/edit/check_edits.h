#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/artifact/random_flags.h"
#include "compiler/driver/verify/region_check.h"
#include "compiler/support/result.h"

namespace fusec {

struct EditChecks {
  std::string device;             // as LoadProgram takes it
  std::vector<std::string> dims;  // "batch=1,64"; without, sizes are chosen
  RandomFlags random_flags;
};

// The fastest runs of an edited kernel and of its original, in microseconds.
struct EditTime {
  std::string kernel;
  DimValues dims;
  double original_us = 0, edited_us = 0;
};

// What was found on a device.
struct EditReport {
  std::string device;  // "cuda:0 (NVIDIA H200)"
  std::string target;  // that it runs, "sm_90a"
  std::vector<RegionJudgement> judgements;
  std::vector<EditTime> times;

  bool Passes() const;
};

// Compares every edited kernel of the artifact in `folder`, alone, with its unfused ops, as `fusec
// verify --per-fusion` does. Without dims it does so at the sizes of verify and at some for which
// each of them has several blocks. Writes into the empty folder `scratch`, where the file
// kCheckedTarget names the target that the device runs.
Result<EditReport> CheckEdits(const std::string& folder, const std::string& scratch,
                              const EditChecks& checks);
inline constexpr const char* kCheckedTarget = "/target";

// How long the edited kernels take, and the originals in `original` beside them, at the sizes of
// `checks` (without: 64).
Result<std::vector<EditTime>> TimeEdits(const std::string& folder, const std::string& original,
                                        const EditChecks& checks);

// For people; "" without times.
std::string EditTimesTable(ArrayRef<EditTime> times);

// For scripts: device, target, pass, outputs[] as verify --per-fusion prints them, times[].
nlohmann::ordered_json EditReportJson(const EditReport& report);

}  // namespace fusec
