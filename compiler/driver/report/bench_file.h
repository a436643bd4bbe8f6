#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/explain/explanation.h"
#include "compiler/support/result.h"

namespace fusec {

// What `fusec bench` measured, read back from `--json` or `--trace`.

struct MeasuredStep {
  std::string name;
  double us = 0, p99_us = 0;  // median and 99th percentile
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// What the device can do at most; 0 where it is not known.
struct MeasuredPeaks {
  double bytes_per_second = 0, f32_per_second = 0;
  std::string source;
};

// One size.
struct MeasuredRun {
  std::string device, dims;                  // "batch=64, items=10", as DimsText has it
  std::optional<double> device_us, call_us;  // medians of whole runs; a trace has none
  std::optional<int64_t> launches, bytes, flops;
  MeasuredPeaks peaks;
  std::vector<MeasuredStep> steps;  // none without --per-kernel
};

// Every size in the file, at least one. Errors name `path` and are of kind kInput.
Result<std::vector<MeasuredRun>> ReadBenchFile(const std::string& path);

// The run at the explained sizes. An error names `path`: no run has these sizes, or its kernels are
// not those of the artifact.
Result<MeasuredRun> FindRun(const std::vector<MeasuredRun>& runs, const Explanation& explanation,
                            const std::string& path);

}  // namespace fusec
