#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compiler/driver/artifact_session.h"
#include "compiler/driver/cli.h"
#include "compiler/driver/input_flags.h"
#include "compiler/driver/output_files.h"
#include "compiler/driver/terminal.h"
#include "runtime/src/bench.h"
#include "runtime/src/step_sizes.h"

namespace fusec {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int64_t kDefaultSize = 64;
// Calls go round this many sets of inputs, so that none finds its own data still in a cache
// (bench.h takes up to 8).
constexpr int kInputSets = 8;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Spread {
  double median = 0, p10 = 0, p90 = 0, p99 = 0;
};

// Percentiles by nearest rank.
Spread SpreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    return samples[std::min(samples.size() - 1,
                            static_cast<size_t>(share * static_cast<double>(samples.size())))];
  };
  return {at(0.5), at(0.1), at(0.9), at(0.99)};
}

struct Measurement {
  DimValues dims;
  Spread device_us, call_us;
  int64_t launches = 0, bytes = 0, flops = 0;
};

// Microseconds of calls until `seconds` are over, at least 10 of them; the first tenth of the time
// warms up.
Result<std::vector<double>> MeasureCalls(
    const std::vector<std::unique_ptr<runtime::Context>>& contexts, double seconds) {
  constexpr size_t kMinSamples = 10, kMaxSamples = 1000000;
  size_t next = 0;
  const auto call = [&]() -> Result<double> {
    const auto start = Clock::now();
    FUSEC_RUNTIME_TRY(contexts[next]->Run());
    next = (next + 1) % contexts.size();
    return Since(start) * 1e6;
  };
  const auto start = Clock::now();
  for (size_t i = 0; i < contexts.size() || Since(start) < seconds / 10; ++i) FUSEC_TRY(call());
  std::vector<double> samples;
  const auto measured = Clock::now();
  while (samples.size() < kMinSamples ||
         (Since(measured) < seconds && samples.size() < kMaxSamples)) {
    FUSEC_ASSIGN(samples.emplace_back(), call());
  }
  return samples;
}

// Microseconds on the GPU. Each sample is the mean of so many replays that it takes some two
// milliseconds.
Result<std::vector<double>> MeasureDevice(
    const std::vector<std::unique_ptr<runtime::Context>>& contexts, double seconds) {
  constexpr double kSampleMicroseconds = 2000;
  std::vector<runtime::Context*> pointers;
  for (const auto& context : contexts) pointers.push_back(context.get());
  FUSEC_RUNTIME_ASSIGN(const std::vector<double> first,
                       runtime::MeasureRotating(pointers, 3, 2 * kInputSets));
  const double one = std::max(SpreadOf(first).median, 0.1);
  const int replays = static_cast<int>(std::clamp(kSampleMicroseconds / one, 1.0, 10000.0));
  const int samples = static_cast<int>(std::clamp(seconds * 1e6 / (one * replays), 10.0, 1000.0));
  FUSEC_RUNTIME_ASSIGN(std::vector<double> all,
                       runtime::MeasureRotating(pointers, samples, replays));
  return all;
}

// Sizes to measure, and the sets of inputs; none stands for random ones, made when they are needed.
struct Case {
  DimValues dims;
  std::vector<Inputs> sets;
};

Result<std::vector<Case>> CasesOf(const runtime::Manifest& manifest, const BenchFlags& flags) {
  std::vector<Case> cases;
  if (flags.inputs.empty()) {
    FUSEC_ASSIGN(const auto sizes, DimCases(flags.dims, DimRanges(manifest), {kDefaultSize}));
    for (const DimValues& dims : sizes) cases.push_back({dims, {}});
    return cases;
  }
  if (!flags.dims.empty())
    return Fail(ErrorKind::kUsage, "--dim is for random data, --inputs has sizes of its own");
  for (const std::string& path : flags.inputs) {
    FUSEC_ASSIGN(Inputs inputs, InputsFromNpz(manifest, path));
    const DimValues dims = DimsOf(manifest, inputs);
    auto found = std::find_if(cases.begin(), cases.end(),
                              [&](const Case& other) { return other.dims == dims; });
    if (found == cases.end()) found = cases.insert(cases.end(), {dims, {}});
    found->sets.push_back(std::move(inputs));
    if (found->sets.size() > kInputSets) {
      return Fail(ErrorKind::kUsage, path + ": more than " + std::to_string(kInputSets) +
                                         " sets of inputs at " + DimsText(dims));
    }
  }
  return cases;
}

Result<Measurement> Measure(const runtime::Program& program, const Case& what,
                            const BenchFlags& flags, const std::string& output) {
  Measurement result;
  result.dims = what.dims;
  std::vector<Inputs> random;
  for (int i = 0; what.sets.empty() && i < kInputSets; ++i) {
    RandomFlags next = flags.random_flags;
    next.seed += i;
    FUSEC_ASSIGN(random.emplace_back(), RandomInputs(program.manifest(), what.dims, next));
  }
  std::vector<std::unique_ptr<runtime::Context>> contexts;
  for (const Inputs& inputs : what.sets.empty() ? random : what.sets) {
    FUSEC_RUNTIME_ASSIGN(auto context, runtime::Context::Create(program));
    FUSEC_TRY(BindInputs(*context, inputs));
    contexts.push_back(std::move(context));
  }
  FUSEC_ASSIGN(const std::vector<double> calls, MeasureCalls(contexts, flags.seconds));
  result.call_us = result.device_us = SpreadOf(calls);
  if (program.device().has_device_memory()) {
    FUSEC_ASSIGN(const std::vector<double> device, MeasureDevice(contexts, flags.seconds));
    result.device_us = SpreadOf(device);
  }
  if (!output.empty()) {
    FUSEC_RUNTIME_TRY(contexts[0]->Run());
    FUSEC_ASSIGN(const std::vector<TensorData> outputs, CopyOutputs(*contexts[0]));
    FUSEC_TRY(WriteOutputs(program.manifest(), outputs, output));
  }
  const std::vector<int64_t> symbols = SymbolValues(program.manifest(), what.dims);
  for (const runtime::Step& step : program.device().target().steps) {
    FUSEC_RUNTIME_ASSIGN(const bool runs, runtime::Runs(step, symbols));
    if (!runs) continue;
    FUSEC_RUNTIME_ASSIGN(const int64_t read, step.bytes_read.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t written, step.bytes_written.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t flops, step.flops.Evaluate(symbols));
    ++result.launches;
    result.bytes += read + written;
    result.flops += flops;
  }
  return result;
}

Json SpreadJson(const Spread& spread) {
  return {{"median", spread.median}, {"p10", spread.p10}, {"p90", spread.p90}, {"p99", spread.p99}};
}

void PrintJson(const std::vector<Measurement>& measurements, const std::string& device) {
  Json list = Json::array();
  for (const Measurement& m : measurements) {
    list.push_back({{"device_us", SpreadJson(m.device_us)},
                    {"call_us", SpreadJson(m.call_us)},
                    {"launches", m.launches},
                    {"bytes", m.bytes},
                    {"flops", m.flops},
                    {"device", device},
                    {"dims", m.dims.empty() ? Json::object() : Json(m.dims)}});
  }
  std::printf("%s\n", list.dump(1).c_str());
}

std::string Microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.2f" : "%.0f", us);
  return text;
}

void PrintTable(const std::vector<Measurement>& measurements, bool on_gpu) {
  std::vector<std::vector<std::string>> rows = {{"dims", "time of", "median us", "p10", "p90",
                                                 "p99", "launches", "bytes", "GB/s", "flops",
                                                 "Gflop/s"}};
  for (const Measurement& m : measurements) {
    for (const bool device : {true, false}) {
      if (device && !on_gpu) continue;
      const Spread& s = device ? m.device_us : m.call_us;
      char bandwidth[32], speed[32];
      std::snprintf(bandwidth, sizeof bandwidth, "%.1f",
                    static_cast<double>(m.bytes) / s.median * 1e-3);
      std::snprintf(speed, sizeof speed, "%.1f", static_cast<double>(m.flops) / s.median * 1e-3);
      rows.push_back({DimsText(m.dims), device ? "device" : "call", Microseconds(s.median),
                      Microseconds(s.p10), Microseconds(s.p90), Microseconds(s.p99),
                      std::to_string(m.launches), FormatBytes(static_cast<double>(m.bytes)),
                      bandwidth, FormatCount(static_cast<double>(m.flops)), speed});
    }
  }
  std::fputs(FormatTable(rows, "llrrrrrrrrr").c_str(), stdout);
}

}  // namespace

Result<int> RunBench(const BenchFlags& flags) {
  if (flags.threads > 0) setenv("FUSEC_NUM_THREADS", std::to_string(flags.threads).c_str(), 1);
  FUSEC_ASSIGN(const auto program, LoadProgram(flags.artifact, flags.device));
  FUSEC_ASSIGN(const std::vector<Case> cases, CasesOf(program->manifest(), flags));
  std::vector<Measurement> measurements;
  {
    ProgressLine progress;
    for (const Case& what : cases) {
      const size_t number = measurements.size();
      progress.Update("measuring " + DimsText(what.dims),
                      static_cast<double>(number) / static_cast<double>(cases.size()));
      const std::string output =
          flags.output.empty() ? "" : flags.output + "/" + std::to_string(number);
      FUSEC_ASSIGN(measurements.emplace_back(), Measure(*program, what, flags, output));
    }
  }
  if (flags.json) {
    PrintJson(measurements, program->device().name());
    return 0;
  }
  PrintTable(measurements, program->device().has_device_memory());
  PrintNote("on " + program->device().name());
  return 0;
}

}  // namespace fusec
