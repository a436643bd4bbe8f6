// CudaExecutor's measuring: graphs of runs and of single steps, replayed between two events.
#include <algorithm>

#include "runtime/src/cuda/cuda_executor.h"

namespace fusec::runtime {
namespace {

std::string_view NameOf(const Operation& operation) {
  if (const auto* kernel = std::get_if<KernelOperation>(&operation)) return kernel->name;
  if (const auto* matmul = std::get_if<MatmulOperation>(&operation)) return matmul->name;
  return {};
}

// Microseconds per replay, `samples` times, of what `launch(replays)` enqueues.
template <class Launch>
StatusOr<std::vector<double>> TimeLaunches(const CudaContext& context, CUstream stream, int samples,
                                           int replays, const Launch& launch) {
  FUSEC_RT_ASSIGN(const CudaEvent begin, CreateEvent(context, true));
  FUSEC_RT_ASSIGN(const CudaEvent end, CreateEvent(context, true));
  std::vector<double> times_us;
  for (int sample = 0; sample < samples; ++sample) {
    FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuEventRecord, begin.get(), stream));
    FUSEC_RT_TRY(launch(replays));
    FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuEventRecord, end.get(), stream));
    FUSEC_RT_TRY(FUSEC_CUDA(context, "the program", cuEventSynchronize, end.get()));
    float elapsed_ms = 0;
    FUSEC_RT_TRY(FUSEC_CUDA(context, {}, cuEventElapsedTime, &elapsed_ms, begin.get(), end.get()));
    times_us.push_back(1000.0 * elapsed_ms / replays);
  }
  return times_us;
}

// For TimeLaunches: replays of a graph.
auto LaunchesOf(const OperationGraph& graph, const CudaContext& context, CUstream stream) {
  return [&graph, &context, stream](int count) -> Status {
    for (int i = 0; i < count; ++i) FUSEC_RT_TRY(graph.Launch(context, stream));
    return {};
  };
}

}  // namespace

// Bindings with every input and output in device memory, and the copies that they need. The sets
// share the outputs.
struct CudaExecutor::DeviceSets {
  std::vector<RunBindings> sets;
  std::vector<std::vector<TensorBinding>> inputs;  // of each set, to which `sets` point
  std::vector<TensorBinding> outputs;
  std::vector<DeviceMemory> copies;
};

StatusOr<CudaExecutor::DeviceSets> CudaExecutor::CopyToDevice(std::span<const RunBindings> sets) {
  if (!device_.use_graphs()) {
    return Fail(FUSEC_BAD_USAGE, "FUSEC_CUDA_GRAPH=0 waits for every step, unset it to measure");
  }
  if (sets.empty() || sets.size() > GraphCache::kExecutables) {
    return Fail(FUSEC_BAD_USAGE, sets.size(), " sets of inputs to measure, expected 1 to ",
                GraphCache::kExecutables);
  }
  DeviceSets result;
  const auto on_device = [&](const TensorBinding& host,
                             const char* purpose) -> StatusOr<TensorBinding> {
    FUSEC_RT_ASSIGN(DeviceMemory memory, AllocateDevice(context_, host.bytes, purpose));
    TensorBinding binding{reinterpret_cast<void*>(memory.get()), host.bytes, true};
    result.copies.push_back(std::move(memory));
    return binding;
  };
  result.outputs.assign(sets[0].outputs.begin(), sets[0].outputs.end());
  for (TensorBinding& output : result.outputs) {
    if (output.on_device) continue;
    FUSEC_RT_ASSIGN(output, on_device(output, "an output to measure with"));
  }
  for (const RunBindings& set : sets) {
    auto& inputs = result.inputs.emplace_back(set.inputs.begin(), set.inputs.end());
    for (TensorBinding& input : inputs) {
      if (input.on_device || input.bytes == 0) continue;
      const void* host = input.data;
      FUSEC_RT_ASSIGN(input, on_device(input, "an input to measure with"));
      FUSEC_RT_TRY(FUSEC_CUDA(context_, "the inputs", cuMemcpyHtoDAsync,
                              reinterpret_cast<CUdeviceptr>(input.data), host, input.bytes,
                              own_.stream.get()));
    }
    RunBindings& bindings = result.sets.emplace_back(set);
    bindings.inputs = inputs;  // whose elements stay where they are
    bindings.outputs = result.outputs;
  }
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
  // In order, so that a step finds what the steps before it have made: nothing runs in between.
  for (size_t begin = 0, end, step = 0; begin < by_set[0].size(); begin = end) {
    const std::string_view name = NameOf(by_set[0][begin]);
    end = begin + 1;
    while (end < by_set[0].size() && NameOf(by_set[0][end]) == name) ++end;
    while (steps[step].name != name) ++step;  // those without operations have nothing to do
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
