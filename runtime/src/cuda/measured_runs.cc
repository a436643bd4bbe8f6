#include "runtime/src/cuda/measured_runs.h"

namespace fusec::runtime {

StatusOr<DeviceSets> DeviceSets::Copy(const CudaContext& context, const Manifest* manifest,
                                      std::span<const RunBindings> sets, CUstream stream) {
  DeviceSets result;
  const auto on_device = [&](const TensorBinding& host,
                             const char* purpose) -> StatusOr<TensorBinding> {
    FUSEC_RT_ASSIGN(DeviceMemory memory, AllocateDevice(context, host.bytes, purpose));
    TensorBinding binding{reinterpret_cast<void*>(memory.get()), host.bytes, true};
    result.copies.push_back(std::move(memory));
    return binding;
  };
  const auto input_of = [&](size_t output) {
    return manifest == nullptr ? -1 : manifest->InputInPlaceOf(output);
  };
  std::vector<TensorBinding> shared(sets[0].outputs.begin(), sets[0].outputs.end());
  for (size_t i = 0; i < shared.size(); ++i) {
    if (shared[i].on_device || input_of(i) >= 0) continue;
    FUSEC_RT_ASSIGN(shared[i], on_device(shared[i], "an output to measure with"));
  }
  for (const RunBindings& set : sets) {
    auto& inputs = result.inputs.emplace_back(set.inputs.begin(), set.inputs.end());
    for (TensorBinding& input : inputs) {
      if (input.on_device || input.bytes == 0) continue;
      const void* host = input.data;
      FUSEC_RT_ASSIGN(input, on_device(input, "an input to measure with"));
      FUSEC_RT_TRY(FUSEC_CUDA(context, "the inputs", cuMemcpyHtoDAsync,
                              reinterpret_cast<CUdeviceptr>(input.data), host, input.bytes,
                              stream));
    }
    RunBindings& bindings = result.sets.emplace_back(set);
    bindings.inputs = inputs;  // a span; the elements do not move
    auto& outputs = result.outputs.emplace_back(shared);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (const int input = input_of(i); input >= 0) outputs[i] = inputs[input];
    }
    bindings.outputs = outputs;
  }
  return result;
}

}  // namespace fusec::runtime
