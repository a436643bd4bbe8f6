#include "runtime/src/bench.h"

#include <algorithm>

#include "runtime/src/cuda_executor.h"

namespace fusec::runtime {

StatusOr<std::vector<double>> CudaExecutor::Measure(std::span<const RunBindings> sets, int samples,
                                                    int replays) {
  if (!device_.use_graphs()) {
    return Fail(FUSEC_BAD_USAGE, "FUSEC_CUDA_GRAPH=0 waits for every step, unset it to measure");
  }
  if (sets.empty() || sets.size() > kExecutables) {
    return Fail(FUSEC_BAD_USAGE, sets.size(), " sets of inputs to measure, expected 1 to ",
                kExecutables);
  }
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  const CUstream stream = stream_.get();

  std::vector<DeviceMemory> copies;
  const auto on_device = [&](const TensorBinding& host,
                             const char* purpose) -> StatusOr<TensorBinding> {
    FUSEC_RT_ASSIGN(DeviceMemory memory, AllocateDevice(context_, host.bytes, purpose));
    TensorBinding binding{reinterpret_cast<void*>(memory.get()), host.bytes, true};
    copies.push_back(std::move(memory));
    return binding;
  };
  std::vector<TensorBinding> outputs(sets[0].outputs.begin(), sets[0].outputs.end());
  for (TensorBinding& output : outputs) {
    if (output.on_device) continue;
    FUSEC_RT_ASSIGN(output, on_device(output, "an output to measure with"));
  }
  std::vector<const Prepared*> rotation;
  for (const RunBindings& set : sets) {
    std::vector<TensorBinding> inputs(set.inputs.begin(), set.inputs.end());
    for (TensorBinding& input : inputs) {
      if (input.on_device || input.bytes == 0) continue;
      const void* host = input.data;
      FUSEC_RT_ASSIGN(input, on_device(input, "an input to measure with"));
      FUSEC_RT_TRY(FUSEC_CUDA(context_, "the inputs", cuMemcpyHtoDAsync,
                              reinterpret_cast<CUdeviceptr>(input.data), host, input.bytes,
                              stream));
    }
    RunBindings bindings = set;
    bindings.inputs = inputs;
    bindings.outputs = outputs;
    FUSEC_RT_ASSIGN(const Prepared* prepared, Prepare(bindings));
    rotation.push_back(prepared);
  }
  running_symbols_.assign(sets[0].symbols.begin(), sets[0].symbols.end());

  FUSEC_RT_ASSIGN(const CudaEvent begin, CreateEvent(context_, true));
  FUSEC_RT_ASSIGN(const CudaEvent end, CreateEvent(context_, true));
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
  std::vector<double> times_us;
  for (int sample = 0; sample < samples; ++sample) {
    FUSEC_RT_TRY(FUSEC_CUDA(context_, {}, cuEventRecord, begin.get(), stream));
    FUSEC_RT_TRY(launch(replays));
    FUSEC_RT_TRY(FUSEC_CUDA(context_, {}, cuEventRecord, end.get(), stream));
    FUSEC_RT_TRY(FUSEC_CUDA(context_, "the program", cuEventSynchronize, end.get()));
    float elapsed_ms = 0;
    FUSEC_RT_TRY(FUSEC_CUDA(context_, {}, cuEventElapsedTime, &elapsed_ms, begin.get(), end.get()));
    times_us.push_back(1000.0 * elapsed_ms / replays);
  }
  return times_us;
}

StatusOr<std::vector<double>> MeasureRotating(std::span<Context* const> contexts, int samples,
                                              int replays) {
  if (contexts.empty()) return Fail(FUSEC_BAD_USAGE, "no contexts to measure");
  if (replays < 1) return Fail(FUSEC_BAD_USAGE, replays, " replays to measure, expected 1 or more");
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

}  // namespace fusec::runtime
