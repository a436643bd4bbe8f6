#pragma once

#include <span>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// What kernels are told of a run's memory.
struct RunAddresses {
  std::span<const CUdeviceptr> buffers;  // by buffer of the manifest
  CUdeviceptr index_error = 0;           // of an IndexError
};

// Appends what the steps of the device's target are for a run, in their order: those that run for
// its dims, with every size evaluated and every address known. A step may be no operation (nothing
// to do), or several: a matmul is one or more products of cuBLASLt, each with a kernel behind it
// where the library lacks its epilogue. Owns nothing; any number of threads may resolve for one
// device. Errors: FUSEC_BAD_INPUT for dims that a step has no room for, FUSEC_NO_DEVICE where
// cuBLASLt has no algorithm.
Status AppendSteps(CudaDevice& device, const RunBindings& bindings, const RunAddresses& addresses,
                   std::vector<Operation>& operations);

}  // namespace fusec::runtime
