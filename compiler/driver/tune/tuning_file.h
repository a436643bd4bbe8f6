#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/ir/region_class.h"
#include "compiler/plan/region_kernels.h"

namespace fusec {

// What was measured for an artifact: its file tuning.json, from which it can be built again and
// which `fusec explain` and `fusec tune --table` show.

struct MeasuredKernel {
  KernelChoice choice;
  double microseconds = 0;  // of one launch; 0 where `problem` says why there is none
  std::string problem;      // "its answers differ: ..."
};

// The kernels that can make a region at one size; the first is the one planned without measuring.
struct MeasuredSize {
  DimValues dims;
  int64_t size = 0, bytes = 0, flops = 0;  // see RegionKernels::size
  std::vector<MeasuredKernel> kernels;
  size_t winner = 0;
};

struct MeasuredRegion {
  size_t number = 0;  // among the graph's regions
  std::string kernel;
  RegionClass region_class = RegionClass::kPointwise;
  bool complete = true;  // all sizes were measured; else nothing is chosen by them
  std::vector<MeasuredSize> sizes;
};

// A kernel replaces the planned one if it is this much ahead.
inline constexpr double kAhead = 0.98;
// For artifacts whose kernels serve every batch: the kernel with the best geometric mean of its
// times, relative to the planned one's, becomes the winner at all sizes.
void TakeOneWinner(MeasuredRegion& region);

struct TargetTuning {
  std::string device;  // "NVIDIA H200, driver 13.0, ...": what the times hold for
  std::vector<MeasuredRegion> regions;

  Tuning Winners() const;
};

// By target.
using TuningFile = std::map<std::string, TargetTuning>;
inline constexpr const char* kTuningFile = "tuning.json";

std::string TuningText(const TuningFile& file);
// Errors name `path` and what is wrong with it.
Result<TuningFile> ParseTuning(const std::string& text, const std::string& path);
// Of an artifact; empty where it was never tuned.
Result<TuningFile> ReadTuning(const std::string& artifact);

// The kernels of one size as text, and back; for the cache. nullopt where it is none.
std::string MeasuredText(const MeasuredSize& measured);
std::optional<MeasuredSize> ParseMeasured(const std::string& text);

}  // namespace fusec
