#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/explain/explanation.h"
#include "compiler/support/result.h"

namespace fusec {

// The measurements of `fusec bench`, read from the output of `--json` or a file of `--trace`.

struct MeasuredStep {
  std::string name;
  double us = 0, p99_us = 0;  // median and 99th percentile
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// The peak rates of the device; 0 if they are unknown.
struct MeasuredPeaks {
  double bytes_per_second = 0, f32_per_second = 0;
  std::string source;
};

// The measurements at one size.
struct MeasuredRun {
  std::string device, dims;                  // dims as in DimsText: "batch=64, items=10"
  std::optional<double> device_us, call_us;  // medians of whole runs; a trace has none
  std::optional<int64_t> launches, bytes, flops;
  MeasuredPeaks peaks;
  std::vector<MeasuredStep> steps;  // empty unless kernels were measured (--per-kernel, --trace)
};

// The measurements of all sizes in the file, at least one. Errors name `path` and are of kind
// kInput.
Result<std::vector<MeasuredRun>> ReadBenchFile(const std::string& path);

// The measurements at the explained sizes. It is an error, which names `path`, if there are none or
// if their kernels are not those of the artifact.
Result<MeasuredRun> FindRun(const std::vector<MeasuredRun>& runs, const Explanation& explanation,
                            const std::string& path);

}  // namespace fusec
