#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <latch>
#include <optional>
#include <thread>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/input_flags.h"
#include "compiler/driver/artifact/output_files.h"
#include "compiler/driver/cli/bench_report.h"
#include "compiler/driver/cli/cli.h"
#include "compiler/support/adt.h"
#include "compiler/support/terminal.h"
#include "runtime/src/artifact/step_sizes.h"

namespace fusec {

namespace {

using Clock = std::chrono::steady_clock;
using Contexts = std::vector<std::unique_ptr<runtime::Context>>;

constexpr int64_t kDefaultSize = 64;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A set of inputs in host memory: a copy in page-locked memory or, if `pageable`, the tensors' own
// memory, which must then outlive this object.
class HostInputs {
 public:
  static Result<HostInputs> Make(const runtime::Program& program, const Inputs& inputs,
                                 bool pageable) {
    HostInputs result;
    for (const TensorData& tensor : inputs) {
      const void* data = tensor.bytes();
      void* own = nullptr;
      if (!pageable) {
        FUSEC_RUNTIME_ASSIGN(void* memory, program.device().AllocateHost(tensor.byte_count()));
        result.memory_.emplace_back(memory,
                                    [&program](void* freed) { program.device().FreeHost(freed); });
        if (tensor.byte_count() > 0) std::memcpy(memory, data, tensor.byte_count());
        data = own = memory;
      }
      result.tensors_.push_back({data, tensor.dims(), own, tensor.byte_count()});
    }
    return result;
  }

  Result<void> Bind(runtime::Context& context) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      FUSEC_RUNTIME_TRY(
          context.BindInput(static_cast<int>(i), tensors_[i].data, tensors_[i].dims, false));
    }
    const runtime::Manifest& manifest = context.program().manifest();
    for (size_t i = 0; i < manifest.outputs.size(); ++i) {
      const int input = manifest.InputInPlaceOf(i);
      if (input < 0 || !tensors_[input].own) continue;
      FUSEC_RUNTIME_TRY(context.BindOutput(static_cast<int>(i), tensors_[input].own,
                                           tensors_[input].bytes, false));
    }
    return {};
  }

 private:
  struct Tensor {
    const void* data;
    std::vector<int64_t> dims;
    void* own;  // the same memory if it was allocated here, else null
    size_t bytes;
  };
  std::vector<Tensor> tensors_;
  std::vector<std::unique_ptr<void, std::function<void(void*)>>> memory_;
};

Result<double> TimeCall(runtime::Context& context, const HostInputs& inputs) {
  const auto start = Clock::now();
  FUSEC_TRY(inputs.Bind(context));
  FUSEC_RUNTIME_TRY(context.Run());
  return Since(start) * 1e6;
}

// Times of calls from one context, in microseconds. Calls warm up for a tenth of `seconds`, and are
// then measured for `seconds`, but at least 10 of them.
Result<std::vector<double>> MeasureCalls(const runtime::Program& program, ArrayRef<HostInputs> sets,
                                         double seconds) {
  constexpr size_t kMinSamples = 10, kMaxSamples = 1000000;
  FUSEC_RUNTIME_ASSIGN(const auto context, runtime::Context::Create(program));
  size_t next = 0;
  const auto call = [&]() -> Result<double> {
    const size_t now = std::exchange(next, (next + 1) % sets.size());
    return TimeCall(*context, sets[now]);
  };
  const auto start = Clock::now();
  for (size_t i = 0; i < sets.size() || Since(start) < seconds / 10; ++i) FUSEC_TRY(call());
  std::vector<double> samples;
  const auto measured = Clock::now();
  while (samples.size() < kMinSamples ||
         (Since(measured) < seconds && samples.size() < kMaxSamples)) {
    FUSEC_ASSIGN(samples.emplace_back(), call());
  }
  return samples;
}

std::vector<runtime::Context*> PointersTo(const Contexts& contexts) {
  std::vector<runtime::Context*> pointers;
  for (const auto& context : contexts) pointers.push_back(context.get());
  return pointers;
}

// Time of one run on the GPU in microseconds. `measure(contexts, samples, replays)` gives samples,
// each of which is the mean over `replays` replays of a CUDA graph; a replay consists of `runs`
// runs. The number of replays is chosen so that one sample takes about two milliseconds.
template <class Measure>
Result<Spread> MeasureDevice(const Contexts& contexts, int runs, double seconds,
                             const Measure& measure) {
  constexpr double kSampleMicroseconds = 2000;
  const std::vector<runtime::Context*> pointers = PointersTo(contexts);
  const int round = std::max(2 * static_cast<int>(contexts.size()) / runs, 1);
  FUSEC_RUNTIME_ASSIGN(const std::vector<double> first, measure(pointers, 3, round));
  const double one = std::max(SpreadOf(first).median * runs, 0.1);
  const int replays = static_cast<int>(std::clamp(kSampleMicroseconds / one, 1.0, 10000.0));
  const int samples = static_cast<int>(std::clamp(seconds * 1e6 / (one * replays), 10.0, 1000.0));
  FUSEC_RUNTIME_ASSIGN(std::vector<double> all, measure(pointers, samples, replays));
  return SpreadOf(std::move(all));
}

// One thread of MeasureThroughput: warms up, waits until all threads are ready, and returns the
// times in microseconds of the calls that it makes in `seconds`.
Result<std::vector<double>> CallsOfOneContext(const runtime::Program& program,
                                              ArrayRef<HostInputs> sets, size_t first,
                                              double seconds, std::latch& ready) {
  const auto warm_up = [&]() -> Result<std::unique_ptr<runtime::Context>> {
    FUSEC_RUNTIME_ASSIGN(auto context, runtime::Context::Create(program));
    for (const HostInputs& inputs : sets) FUSEC_TRY(TimeCall(*context, inputs));
    return context;
  };
  Result<std::unique_ptr<runtime::Context>> context = warm_up();
  ready.arrive_and_wait();
  if (!context) return tl::unexpected(context.error());
  std::vector<double> samples;
  const auto start = Clock::now();
  for (size_t i = first; samples.empty() || Since(start) < seconds; ++i) {
    FUSEC_ASSIGN(samples.emplace_back(), TimeCall(**context, sets[i % sets.size()]));
  }
  return samples;
}

Result<Throughput> MeasureThroughput(const runtime::Program& program, ArrayRef<HostInputs> sets,
                                     int contexts, double seconds) {
  std::vector<Result<std::vector<double>>> samples(contexts);
  std::latch ready(contexts);
  std::vector<std::thread> threads;
  for (int i = 0; i < contexts; ++i) {
    threads.emplace_back([&, i] {
      samples[i] = CallsOfOneContext(program, sets, static_cast<size_t>(i), seconds, ready);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Throughput result;
  result.contexts = contexts;
  std::vector<double> all;
  for (const auto& of_one : samples) {
    if (!of_one) return tl::unexpected(of_one.error());
    double sum_us = 0;
    for (const double us : *of_one) sum_us += us;
    result.runs_per_second += static_cast<double>(of_one->size()) / (sum_us * 1e-6);
    all.insert(all.end(), of_one->begin(), of_one->end());
  }
  result.call_us = SpreadOf(std::move(all));
  return result;
}

// Sizes to measure, with the sets of inputs. If there are none, random inputs are made when they
// are needed.
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
    return Fail(ErrorKind::kUsage, "--dim is only for random data, --inputs has sizes of its own");
  for (const std::string& path : flags.inputs) {
    FUSEC_ASSIGN(Inputs inputs, InputsFromNpz(manifest, path));
    const DimValues dims = DimsOf(manifest, inputs);
    auto found = std::find_if(cases.begin(), cases.end(),
                              [&](const Case& other) { return other.dims == dims; });
    if (found == cases.end()) found = cases.insert(cases.end(), {dims, {}});
    found->sets.push_back(std::move(inputs));
    if (static_cast<int>(found->sets.size()) > kMostInputSets) {
      return Fail(ErrorKind::kUsage, path + ": more than " + std::to_string(kMostInputSets) +
                                         " sets of inputs at " + DimsText(dims));
    }
  }
  return cases;
}

// Adds up launches, bytes and flops of the steps that run at this size, as the manifest gives them,
// and appends the steps that have been timed.
Result<void> DescribeSteps(const runtime::Program& program, ArrayRef<runtime::StepTimes> times,
                           Measurement& result) {
  const runtime::Manifest& manifest = program.manifest();
  const std::vector<int64_t> symbols = SymbolValues(manifest, result.dims);
  const auto& steps = program.device().target().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    FUSEC_RUNTIME_ASSIGN(const bool runs, runtime::Runs(steps[i], symbols));
    if (!runs) continue;
    StepMeasurement step;
    step.name = steps[i].name;
    for (const int buffer : steps[i].inputs) step.inputs.push_back(manifest.buffers[buffer].name);
    for (const int buffer : steps[i].outputs) step.outputs.push_back(manifest.buffers[buffer].name);
    FUSEC_RUNTIME_ASSIGN(step.bytes_read, steps[i].bytes_read.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(step.bytes_written, steps[i].bytes_written.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(step.flops, steps[i].flops.Evaluate(symbols));
    FUSEC_RUNTIME_ASSIGN(const int64_t calls, runtime::EvaluateCalls(steps[i], symbols));
    result.launches += calls;
    result.bytes += step.bytes_read + step.bytes_written;
    result.flops += step.flops;
    for (const runtime::StepTimes& timed : times) {
      if (timed.step != i) continue;
      step.us = SpreadOf(timed.us);
      result.steps.push_back(std::move(step));
      break;
    }
  }
  return {};
}

// The use of all caches of tables since the program was loaded.
Result<std::vector<CacheUse>> UseOfCaches(const runtime::Program& program) {
  std::vector<CacheUse> caches;
  for (const runtime::Table& table : program.manifest().tables) {
    FUSEC_RUNTIME_ASSIGN(const fusec_cache_info info, program.device().TableCache(table));
    if (info.rows == 0) continue;
    caches.push_back(
        {table.name, info.rows, table.rows, table.bytes() / table.rows, info.hits, info.misses});
  }
  return caches;
}

// The difference of two UseOfCaches, without the caches that recorded nothing.
std::vector<CacheUse> UseBetween(ArrayRef<CacheUse> before, std::vector<CacheUse> after) {
  for (size_t i = 0; i < after.size(); ++i) {
    after[i].hits -= before[i].hits;
    after[i].misses -= before[i].misses;
  }
  std::erase_if(after, [](const CacheUse& cache) { return cache.hits + cache.misses == 0; });
  return after;
}

Result<Measurement> Measure(const runtime::Program& program, const Case& what,
                            const BenchFlags& flags, const std::string& output) {
  constexpr int kStepSamples = 50;
  Measurement result;
  result.dims = what.dims;
  std::vector<Inputs> random;
  for (int i = 0; what.sets.empty() && i < flags.rotate; ++i) {
    RandomFlags next = flags.random_flags;
    next.seed += i;
    FUSEC_ASSIGN(random.emplace_back(), RandomInputs(program.manifest(), what.dims, next));
  }
  const std::vector<Inputs>& sets = what.sets.empty() ? random : what.sets;
  result.rotate = static_cast<int>(sets.size());
  std::vector<HostInputs> host;
  for (const Inputs& inputs : sets) {
    FUSEC_ASSIGN(host.emplace_back(), HostInputs::Make(program, inputs, flags.pageable));
  }
  FUSEC_ASSIGN(const std::vector<CacheUse> caches, UseOfCaches(program));
  FUSEC_ASSIGN(const std::vector<double> calls, MeasureCalls(program, host, flags.seconds));
  result.call_us = result.device_us = SpreadOf(calls);
  Contexts contexts;
  for (const Inputs& inputs : sets) {
    FUSEC_RUNTIME_ASSIGN(auto context, runtime::Context::Create(program));
    FUSEC_TRY(BindInputs(*context, inputs));
    contexts.push_back(std::move(context));
  }
  if (program.device().has_device_memory()) {
    FUSEC_ASSIGN(result.device_us,
                 MeasureDevice(contexts, 1, flags.seconds, runtime::MeasureRotating));
    // The parts of a sharded artifact have graphs of their own, so there is no graph of all runs.
    if (program.manifest().targets.count(runtime::kShardsTarget) == 0) {
      FUSEC_ASSIGN(result.together_us, MeasureDevice(contexts, result.rotate, flags.seconds / 2,
                                                     runtime::MeasureTogether));
    }
  }
  std::vector<runtime::StepTimes> steps;
  if (flags.per_kernel || !flags.trace.empty()) {
    FUSEC_RUNTIME_ASSIGN(steps, runtime::MeasureSteps(PointersTo(contexts), kStepSamples));
  }
  FUSEC_TRY(DescribeSteps(program, steps, result));
  FUSEC_ASSIGN(std::vector<CacheUse> used, UseOfCaches(program));
  result.caches = UseBetween(caches, std::move(used));
  if (!output.empty()) {
    FUSEC_RUNTIME_TRY(contexts[0]->Run());
    FUSEC_ASSIGN(const std::vector<TensorData> outputs, CopyOutputs(*contexts[0]));
    FUSEC_TRY(WriteOutputs(program.manifest(), outputs, output));
  }
  if (flags.contexts > 0) {
    contexts.clear();  // frees their memory for the contexts of MeasureThroughput
    FUSEC_ASSIGN(result.throughput,
                 MeasureThroughput(program, host, flags.contexts, flags.seconds));
  }
  return result;
}

Result<void> WriteTrace(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return {};
  return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

Result<int> RunBench(const BenchFlags& flags) {
  if (flags.threads > 0) setenv("FUSEC_NUM_THREADS", std::to_string(flags.threads).c_str(), 1);
  FUSEC_ASSIGN(const auto program, LoadProgram(flags.artifact, flags.device));
  FUSEC_ASSIGN(const std::vector<Case> cases, CasesOf(program->manifest(), flags));
  BenchReport report;
  report.device = program->device().name();
  report.on_gpu = program->device().has_device_memory();
  report.pageable = flags.pageable;
  if (flags.inputs.empty()) report.ids = flags.random_flags.ids;
  if (flags.per_kernel || !flags.trace.empty()) {
    FUSEC_RUNTIME_ASSIGN(report.peaks, runtime::PeaksOf(program->device()));
  }
  // A file that cannot be written fails here, before anything is measured.
  if (!flags.trace.empty()) FUSEC_TRY(WriteTrace(flags.trace, ""));
  {
    ProgressLine progress;
    for (const Case& what : cases) {
      const size_t number = report.measurements.size();
      progress.Update("measuring " + DimsText(what.dims),
                      static_cast<double>(number) / static_cast<double>(cases.size()));
      const std::string output =
          flags.output.empty() ? "" : flags.output + "/" + std::to_string(number);
      FUSEC_ASSIGN(report.measurements.emplace_back(), Measure(*program, what, flags, output));
    }
  }
  if (!flags.trace.empty()) FUSEC_TRY(WriteTrace(flags.trace, BenchTrace(report)));
  std::fputs((flags.json ? BenchJson(report) : BenchText(report)).c_str(), stdout);
  NoteEdits(*program);
  if (!flags.json) PrintNote("ran on " + program->device().name());
  return 0;
}

}  // namespace fusec
