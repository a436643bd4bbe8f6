#pragma once

#include <span>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// The addresses of a run's memory that kernels get.
struct RunAddresses {
  std::span<const CUdeviceptr> buffers;  // by buffer of the manifest
  CUdeviceptr index_error = 0;           // address of an IndexError
};

// Appends the operations of a run to `operations`, in the order of the target's steps: for each
// step that runs for its dims, with all sizes evaluated and all addresses filled in. A step may
// give no operation (nothing to do) or several: a matmul gives one or more products of cuBLASLt,
// each followed by a kernel if the library lacks its epilogue. There is no state; any number of
// threads may call it for one device. FUSEC_BAD_INPUT: the dims are too large for a step.
// FUSEC_NO_DEVICE: cuBLASLt has no algorithm.
Status AppendSteps(CudaDevice& device, const RunBindings& bindings, const RunAddresses& addresses,
                   std::vector<Operation>& operations);

}  // namespace fusec::runtime
