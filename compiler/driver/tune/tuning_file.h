#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/ir/region_class.h"
#include "compiler/plan/region_kernels.h"

namespace fusec {

// The measurements of an artifact, which its file tuning.json holds. The artifact can be built
// again with them, and `fusec explain` and `fusec tune --table` show them.

struct MeasuredKernel {
  KernelChoice choice;
  double microseconds = 0;  // time of one launch; 0 if there is a problem
  std::string problem;      // why it was not timed, such as "its answers differ ..."
};

// The kernels that can compute a region at one size. The first is the one that was planned without
// measuring; `winner` is the number of the chosen one.
struct MeasuredSize {
  DimValues dims;
  int64_t size = 0, bytes = 0, flops = 0;  // see RegionKernels::size
  std::vector<MeasuredKernel> kernels;
  size_t winner = 0;
};

struct MeasuredRegion {
  size_t number = 0;  // its index among the graph's regions
  std::string kernel;
  RegionClass region_class = RegionClass::kPointwise;
  bool complete = true;  // whether all sizes were measured; otherwise the planned kernels stay
  std::vector<MeasuredSize> sizes;
};

// A kernel replaces the planned one if it takes at most this fraction of the planned one's time.
inline constexpr double kAhead = 0.98;
// For batch-invariant artifacts, which need one kernel for all sizes: the kernel with the best
// geometric mean of its times relative to the planned kernel's becomes the winner at all sizes.
void TakeOneWinner(MeasuredRegion& region);

struct TargetTuning {
  std::string device;  // what was measured: device and software, "NVIDIA H200, driver 13.0, ..."
  std::vector<MeasuredRegion> regions;

  Tuning Winners() const;
};

// The tuning of each target, by its name.
using TuningFile = std::map<std::string, TargetTuning>;
inline constexpr const char* kTuningFile = "tuning.json";

std::string TuningText(const TuningFile& file);
// Errors name `path` and what is wrong with it.
Result<TuningFile> ParseTuning(const std::string& text, const std::string& path);
// The tuning of an artifact; empty if it was never tuned.
Result<TuningFile> ReadTuning(const std::string& artifact);

// The measurements at one size as text for the kernel cache, and parsed again; nullopt if the text
// cannot be parsed.
std::string MeasuredText(const MeasuredSize& measured);
std::optional<MeasuredSize> ParseMeasured(const std::string& text);

}  // namespace fusec
