// The measuring functions of CudaExecutor: graphs of runs and of single steps are replayed between
// two events.
#include <algorithm>

#include "runtime/src/cuda/cuda_executor.h"
#include "runtime/src/cuda/measured_runs.h"

namespace fusec::runtime {
namespace {

std::string_view NameOf(const Operation& operation) {
  if (const auto* kernel = std::get_if<KernelOperation>(&operation)) return kernel->name;
  if (const auto* matmul = std::get_if<MatmulOperation>(&operation)) return matmul->name;
  return {};
}

// The argument of TimeLaunches that replays a graph.
auto LaunchesOf(const OperationGraph& graph, const CudaContext& context, CUstream stream) {
  return [&graph, &context, stream](int count) -> Status {
    for (int i = 0; i < count; ++i) FUSEC_RT_TRY(graph.Launch(context, stream));
    return {};
  };
}

}  // namespace

StatusOr<DeviceSets> CudaExecutor::CopyToDevice(std::span<const RunBindings> sets) {
  if (!device_.use_graphs()) {
    return Fail(FUSEC_BAD_USAGE, "FUSEC_CUDA_GRAPH=0 waits for every step, unset it to measure");
  }
  if (sets.empty() || sets.size() > GraphCache::kExecutables) {
    return Fail(FUSEC_BAD_USAGE, sets.size(), " sets of inputs to measure, expected 1 to ",
                GraphCache::kExecutables);
  }
  FUSEC_RT_ASSIGN(DeviceSets result,
                  DeviceSets::Copy(context_, &device_.manifest(), sets, own_.stream.get()));
  running_symbols_.assign(sets[0].symbols.begin(), sets[0].symbols.end());
  return result;
}

StatusOr<std::vector<double>> CudaExecutor::Measure(std::span<const RunBindings> sets, int samples,
                                                    int replays) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  FUSEC_RT_ASSIGN(const DeviceSets on_device, CopyToDevice(sets));
  std::vector<const PreparedRun*> rotation;
  for (const RunBindings& bindings : on_device.sets) {
    FUSEC_RT_ASSIGN(const PreparedRun* prepared, Prepare(bindings, false));
    rotation.push_back(prepared);
  }
  const CUstream stream = own_.stream.get();
  size_t next = 0;
  const auto launch = [&](int count) -> Status {
    for (int i = 0; i < count; ++i, next = (next + 1) % rotation.size()) {
      FUSEC_RT_TRY(rotation[next]->Launch(graphs_.environment(), stream));
    }
    return {};
  };
  FUSEC_RT_TRY(launch(2 * static_cast<int>(rotation.size())));
  FUSEC_RT_TRY(FUSEC_CUDA(context_, "the program", cuStreamSynchronize, stream));
  FUSEC_RT_TRY(CheckErrors());
  return TimeLaunches(context_, stream, samples, replays, launch);
}

// The operations of each set.
StatusOr<std::vector<std::vector<Operation>>> CudaExecutor::ResolveAll(const DeviceSets& sets) {
  std::vector<std::vector<Operation>> by_set;
  for (const RunBindings& bindings : sets.sets) {
    MakeKey(bindings, false);
    FUSEC_RT_ASSIGN(ResolvedRun run, Resolve(bindings));
    by_set.push_back(std::move(run.operations));
  }
  return by_set;
}

StatusOr<std::vector<double>> CudaExecutor::MeasureTogether(std::span<const RunBindings> sets,
                                                            int samples, int replays) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  FUSEC_RT_ASSIGN(const DeviceSets on_device, CopyToDevice(sets));
  FUSEC_RT_ASSIGN(const std::vector<std::vector<Operation>> by_set, ResolveAll(on_device));
  std::vector<Operation> chain;
  for (const auto& operations : by_set)
    chain.insert(chain.end(), operations.begin(), operations.end());
  FUSEC_RT_ASSIGN(const OperationGraph graph, graphs_.Build(std::move(chain), OwnMemory()));
  const CUstream stream = own_.stream.get();
  const auto launch = LaunchesOf(graph, context_, stream);
  FUSEC_RT_TRY(launch(2));
  FUSEC_RT_TRY(FUSEC_CUDA(context_, "the program", cuStreamSynchronize, stream));
  FUSEC_RT_TRY(CheckErrors());
  FUSEC_RT_ASSIGN(std::vector<double> us, TimeLaunches(context_, stream, samples, replays, launch));
  for (double& time : us) time /= static_cast<double>(sets.size());
  return us;
}

StatusOr<std::vector<StepTimes>> CudaExecutor::MeasureSteps(std::span<const RunBindings> sets,
                                                            int samples) {
  constexpr double kSampleMicroseconds = 500;
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  FUSEC_RT_ASSIGN(const DeviceSets on_device, CopyToDevice(sets));
  FUSEC_RT_ASSIGN(const std::vector<std::vector<Operation>> by_set, ResolveAll(on_device));
  const CUstream stream = own_.stream.get();
  const auto& steps = device_.target().steps;
  std::vector<StepTimes> result;
  // The steps are measured in order, so that each finds the results of the earlier steps.
  for (size_t begin = 0, end, step = 0; begin < by_set[0].size(); begin = end) {
    const std::string_view name = NameOf(by_set[0][begin]);
    end = begin + 1;
    while (end < by_set[0].size() && NameOf(by_set[0][end]) == name) ++end;
    while (steps[step].name != name) ++step;  // skips steps without operations
    std::vector<Operation> chain;
    for (const auto& operations : by_set) {
      chain.insert(chain.end(), operations.begin() + static_cast<ptrdiff_t>(begin),
                   operations.begin() + static_cast<ptrdiff_t>(end));
    }
    FUSEC_RT_ASSIGN(const OperationGraph graph, graphs_.Build(std::move(chain), OwnMemory()));
    const auto launch = LaunchesOf(graph, context_, stream);
    FUSEC_RT_ASSIGN(const std::vector<double> first, TimeLaunches(context_, stream, 3, 1, launch));
    FUSEC_RT_TRY(CheckErrors());
    const double one_us = std::max(*std::min_element(first.begin(), first.end()), 1.0);
    const int replays = static_cast<int>(std::max(kSampleMicroseconds / one_us, 1.0));
    FUSEC_RT_ASSIGN(std::vector<double> us,
                    TimeLaunches(context_, stream, samples, replays, launch));
    for (double& time : us) time /= static_cast<double>(sets.size());
    result.push_back({step, std::move(us)});
  }
  return result;
}

}  // namespace fusec::runtime
