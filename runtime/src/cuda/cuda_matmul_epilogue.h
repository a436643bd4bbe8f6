#pragma once

#include <fusec/fusec.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// Kernels that compute d = activation(d + bias) in place, for a product whose epilogue cuBLASLt
// does not have, and d = activation(bias) for a product with an empty k. NVRTC compiles a kernel
// for the GPU when a plan first needs it.
class MatmulEpilogues {
 public:
  explicit MatmulEpilogues(const CudaContext& context) : context_(context) {}

  // The context must be current. MatmulEpilogueSource describes the kernel's parameters.
  StatusOr<CUfunction> Kernel(fusec_dtype dtype);

 private:
  const CudaContext& context_;
  std::mutex mutex_;
  std::map<fusec_dtype, CudaModule> modules_;
};

// The source of the kernel "matmul_epilogue" for a dtype:
// (T* d, const T* bias or null, i64 matrix_elements, i64 columns, i64 batch_stride, i64 total,
// i32 from_zero, i32 activation)
std::string MatmulEpilogueSource(fusec_dtype dtype);

inline constexpr int kEpilogueBlockSize = 256;

}  // namespace fusec::runtime
