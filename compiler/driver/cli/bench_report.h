#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/artifact/dim_flags.h"
#include "runtime/src/bench.h"

namespace fusec {

// The measurements of `fusec bench`, and the formats in which they are printed.

// Percentiles of times in microseconds, by nearest rank.
struct Spread {
  double median = 0, p10 = 0, p90 = 0, p99 = 0;
};
Spread SpreadOf(std::vector<double> samples);

// One kernel or library call of the program, timed on its own.
struct StepMeasurement {
  std::string name;
  std::vector<std::string> inputs, outputs;  // names of tensors
  Spread us;
  int64_t bytes_read = 0, bytes_written = 0, flops = 0;
};

// Calls from several contexts at the same time, each in a thread of its own.
struct Throughput {
  int contexts = 0;
  double runs_per_second = 0;  // of all contexts together
  Spread call_us;
};

// How the GPU's cache of a table in host memory answered look-ups while one size was measured. Runs
// record a sample of their look-ups.
struct CacheUse {
  std::string table;
  int64_t cached_rows = 0, rows = 0;  // the capacity of the cache, and the rows of the table
  int64_t row_bytes = 0;              // of a stored row with its scale and bias
  uint64_t hits = 0, misses = 0;      // of the recorded look-ups

  double HitRate() const {
    return hits == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
  // Bytes that a look-up reads over the bus, on average.
  double BusBytes() const { return (1 - HitRate()) * static_cast<double>(row_bytes); }
};

// What was measured at one size.
struct Measurement {
  DimValues dims;
  int rotate = 0;  // number of sets of inputs that runs use in turn
  Spread device_us, call_us;
  Spread together_us;  // on a GPU: time of one run where one CUDA graph runs all sets of inputs
  int64_t launches = 0, bytes = 0, flops = 0;
  std::optional<Throughput> throughput;
  std::vector<StepMeasurement> steps;
  std::vector<CacheUse> caches;  // those that recorded look-ups
};

struct BenchReport {
  std::string device;
  bool on_gpu = false, pageable = false;  // pageable: calls to a GPU read pageable host memory
  std::string ids;             // the distribution of random ids; "" if the inputs are given
  runtime::DevicePeaks peaks;  // set if steps were measured
  std::vector<Measurement> measurements;
};

// Microseconds that the bytes of a step take at the device's peak bandwidth; 0 if that is unknown.
double FloorMicroseconds(const StepMeasurement& step, const runtime::DevicePeaks& peaks);

// The report as tables for people, as JSON for scripts (later versions may add keys but not remove
// any), and in Chrome's trace format, which Perfetto opens. The trace has one process for each size
// and one slice for each kernel, in order, whose length is the kernel's median time.
std::string BenchText(const BenchReport& report);
std::string BenchJson(const BenchReport& report);
std::string BenchTrace(const BenchReport& report);

}  // namespace fusec
