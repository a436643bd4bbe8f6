#include "runtime/src/bench.h"

#include <algorithm>

#include "runtime/src/cpu/cpu_executor.h"
#include "runtime/src/cuda/cuda_executor.h"
#include "runtime/src/shards/sharded_executor.h"

namespace fusec::runtime {
namespace {

StatusOr<std::vector<RunBindings>> PrepareAll(std::span<Context* const> contexts) {
  if (contexts.empty()) return Fail(FUSEC_BAD_USAGE, "no contexts to measure");
  std::vector<RunBindings> sets;
  for (Context* context : contexts) {
    FUSEC_RT_ASSIGN(const RunBindings bindings, context->Prepare());
    if (&context->program() != &contexts[0]->program() ||
        !std::equal(bindings.symbols.begin(), bindings.symbols.end(),
                    sets.empty() ? bindings.symbols.begin() : sets[0].symbols.begin())) {
      return Fail(FUSEC_BAD_USAGE,
                  "contexts of different programs or dims cannot be measured together");
    }
    sets.push_back(bindings);
  }
  return sets;
}

}  // namespace

StatusOr<std::vector<double>> MeasureRotating(std::span<Context* const> contexts, int samples,
                                              int replays) {
  if (replays < 1) return Fail(FUSEC_BAD_USAGE, replays, " replays to measure, expected 1 or more");
  FUSEC_RT_ASSIGN(const std::vector<RunBindings> sets, PrepareAll(contexts));
  if (auto* cuda = dynamic_cast<CudaExecutor*>(&contexts[0]->executor())) {
    return cuda->Measure(sets, samples, replays);
  }
  if (auto* sharded = dynamic_cast<ShardedExecutor*>(&contexts[0]->executor())) {
    return sharded->Measure(sets, samples, replays);
  }
  std::vector<double> times_us;
  size_t next = 0;
  for (int sample = 0; sample < samples; ++sample) {
    double sum = 0;
    for (int i = 0; i < replays; ++i, next = (next + 1) % contexts.size()) {
      FUSEC_RT_ASSIGN(const std::vector<double> one, contexts[next]->MeasureRuns(1));
      sum += one[0];
    }
    times_us.push_back(sum / replays);
  }
  return times_us;
}

StatusOr<std::vector<double>> MeasureTogether(std::span<Context* const> contexts, int samples,
                                              int replays) {
  if (replays < 1) return Fail(FUSEC_BAD_USAGE, replays, " replays to measure, expected 1 or more");
  FUSEC_RT_ASSIGN(const std::vector<RunBindings> sets, PrepareAll(contexts));
  auto* cuda = dynamic_cast<CudaExecutor*>(&contexts[0]->executor());
  if (!cuda) return Fail(FUSEC_BAD_USAGE, "runs are measured as one graph on a GPU only");
  return cuda->MeasureTogether(sets, samples, replays);
}

StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<Context* const> contexts, int samples) {
  FUSEC_RT_ASSIGN(const std::vector<RunBindings> sets, PrepareAll(contexts));
  if (auto* cuda = dynamic_cast<CudaExecutor*>(&contexts[0]->executor())) {
    return cuda->MeasureSteps(sets, samples);
  }
  const auto& steps = contexts[0]->program().device().target().steps;
  std::vector<StepTimes> result;
  for (size_t i = 0; i < steps.size(); ++i) {
    FUSEC_RT_ASSIGN(const bool runs, Runs(steps[i], sets[0].symbols));
    if (runs) result.push_back({i, {}});
  }
  for (int sample = 0; sample < samples; ++sample) {
    const size_t set = static_cast<size_t>(sample) % sets.size();
    Executor& executor = contexts[set]->executor();
    auto* sharded = dynamic_cast<ShardedExecutor*>(&executor);
    FUSEC_RT_ASSIGN(const std::vector<double> us,
                    sharded ? sharded->MeasureSteps(sets[set])
                            : dynamic_cast<CpuExecutor&>(executor).MeasureSteps(sets[set]));
    for (StepTimes& step : result) step.us.push_back(us[step.step]);
  }
  return result;
}

}  // namespace fusec::runtime
