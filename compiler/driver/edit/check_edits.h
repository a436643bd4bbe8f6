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
  std::vector<std::string> dims;  // such as "batch=1,64"; if empty, CheckEdits chooses sizes
  RandomFlags random_flags;
};

// The times of the fastest runs of an edited kernel and of its original, in microseconds.
struct EditTime {
  std::string kernel;
  DimValues dims;
  double original_us = 0, edited_us = 0;
};

// The results of checking and timing on one device.
struct EditReport {
  std::string device;  // "cuda:0 (NVIDIA H200)"
  std::string target;  // the target that the device runs, such as "sm_90a"
  std::vector<RegionJudgement> judgements;
  std::vector<EditTime> times;

  bool Passes() const;
};

// Compares every edited kernel of the artifact in `folder`, alone, with its unfused ops, as `fusec
// verify --per-fusion` does. If no dims are given, it uses the sizes of verify, and for each kernel
// a size at which it has several blocks. Writes into the empty folder `scratch`, where the file
// kCheckedTarget names the target that the device runs.
Result<EditReport> CheckEdits(const std::string& folder, const std::string& scratch,
                              const EditChecks& checks);
inline constexpr const char* kCheckedTarget = "/target";

// Times the edited kernels of `folder` and their originals in the artifact `original`, at the sizes
// of `checks` (default: 64).
Result<std::vector<EditTime>> TimeEdits(const std::string& folder, const std::string& original,
                                        const EditChecks& checks);

// A table for people; "" if there are no times.
std::string EditTimesTable(ArrayRef<EditTime> times);

// JSON for scripts: device, target, pass, outputs[] as verify --per-fusion prints them, times[].
nlohmann::ordered_json EditReportJson(const EditReport& report);

}  // namespace fusec
