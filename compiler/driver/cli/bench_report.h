#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/dim_flags.h"
#include "runtime/src/bench.h"

namespace fusec {

// What `fusec bench` measures, and the forms in which it reports it.

// Percentiles of microseconds by nearest rank.
struct Spread {
  double median = 0, p10 = 0, p90 = 0, p99 = 0;
};
Spread SpreadOf(std::vector<double> samples);

// One launch of the program alone.
struct StepMeasurement {
  std::string name;
  std::vector<std::string> inputs, outputs;  // names of tensors
  Spread us;
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// Calls from several contexts at the same time, a thread each.
struct Throughput {
  int contexts = 0;
  double runs_per_second = 0;  // of all together
  Spread call_us;
};

// One size.
struct Measurement {
  DimValues dims;
  int rotate = 0;  // sets of inputs that runs go round
  Spread device_us, call_us;
  Spread together_us;  // on a GPU: of a run, where runs of all sets are one graph
  int64_t launches = 0, bytes = 0, flops = 0;
  std::optional<Throughput> throughput;
  std::vector<StepMeasurement> steps;
};

struct BenchReport {
  std::string device;
  bool on_gpu = false, pageable = false;  // pageable: the inputs of calls to a GPU
  std::string ids;             // how random ids are spread, "" of given inputs
  runtime::DevicePeaks peaks;  // with steps
  std::vector<Measurement> measurements;
};

// Microseconds that the bytes of a step take at the device's peak; 0 if that is not known.
double FloorMicroseconds(const StepMeasurement& step, const runtime::DevicePeaks& peaks);

// The report as tables for people, as JSON for scripts (more keys may be added, none may go), and in
// Chrome's trace format, which Perfetto opens: one process for each size, one slice for each launch,
// in order, as long as its median time.
std::string BenchText(const BenchReport& report);
std::string BenchJson(const BenchReport& report);
std::string BenchTrace(const BenchReport& report);

}  // namespace fusec
