#pragma once

#include <span>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/executor.h"

// What measuring runs on a GPU takes.
namespace fusec::runtime {

// Bindings with every input and output in device memory, and the copies that they need. The sets
// share the outputs.
struct DeviceSets {
  // Copies what lies in host memory, on the stream. The context is current; there is a set.
  static StatusOr<DeviceSets> Copy(const CudaContext& context, std::span<const RunBindings> sets,
                                   CUstream stream);

  std::vector<RunBindings> sets;
  std::vector<std::vector<TensorBinding>> inputs;  // of each set, to which `sets` point
  std::vector<TensorBinding> outputs;
  std::vector<DeviceMemory> copies;
};

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

}  // namespace fusec::runtime
