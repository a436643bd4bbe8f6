#pragma once

#include <span>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/executor.h"

// Helpers for measuring runs on a GPU.
namespace fusec::runtime {

// Bindings whose inputs and outputs are all in device memory, and the copies that they refer to.
// All sets share the outputs, except those that lie in the memory of inputs.
struct DeviceSets {
  // Copies the tensors in host memory, on the stream. The context must be current, and `sets` not
  // empty. Outputs of the manifest, if there is one, lie in the memory of inputs where they can.
  static StatusOr<DeviceSets> Copy(const CudaContext& context, const Manifest* manifest,
                                   std::span<const RunBindings> sets, CUstream stream);

  std::vector<RunBindings> sets;
  // Those of each set; `sets` points to them.
  std::vector<std::vector<TensorBinding>> inputs, outputs;
  std::vector<DeviceMemory> copies;
};

// The time in microseconds per replay of the work that `launch(replays)` enqueues, `samples` times.
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

}  // namespace fusec::runtime
