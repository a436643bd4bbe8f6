#include "runtime/src/bench.h"

#include <algorithm>

#include "runtime/src/cpu/cpu_executor.h"
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
  if (sets.empty() || sets.size() > kExecutables) {
    return Fail(FUSEC_BAD_USAGE, sets.size(), " sets of inputs to measure, expected 1 to ",
                kExecutables);
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
                              stream_.get()));
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
  std::vector<const Prepared*> rotation;
  for (const RunBindings& bindings : on_device.sets) {
    FUSEC_RT_ASSIGN(const Prepared* prepared, Prepare(bindings, false));
    rotation.push_back(prepared);
  }
  const CUstream stream = stream_.get();
  size_t next = 0;
  const auto launch = [&](int count) -> Status {
    for (int i = 0; i < count; ++i, next = (next + 1) % rotation.size()) {
      FUSEC_RT_TRY(Launch(*rotation[next], stream));
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
    FUSEC_RT_ASSIGN(const Addresses addresses, Locate(bindings));
    FUSEC_RT_ASSIGN(by_set.emplace_back(), Resolve(bindings, addresses));
  }
  return by_set;
}

// One graph of operations, each after the one before it.
StatusOr<OperationGraph> CudaExecutor::BuildChain(std::vector<Operation> operations) {
  FUSEC_RT_TRY(Capture(operations));
  FUSEC_RT_ASSIGN(std::vector<OperationGraph> graphs,
                  OperationGraph::Build(Environment(), std::move(operations), 1));
  return std::move(graphs[0]);
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
  FUSEC_RT_ASSIGN(const OperationGraph graph, BuildChain(std::move(chain)));
  const CUstream stream = stream_.get();
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
  const CUstream stream = stream_.get();
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
    FUSEC_RT_ASSIGN(const OperationGraph graph, BuildChain(std::move(chain)));
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
    auto& cpu = dynamic_cast<CpuExecutor&>(contexts[set]->executor());
    FUSEC_RT_ASSIGN(const std::vector<double> us, cpu.MeasureSteps(sets[set]));
    for (StepTimes& step : result) step.us.push_back(us[step.step]);
  }
  return result;
}

}  // namespace fusec::runtime
