#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/cuda/cuda_operation.h"

namespace fusec::runtime {

// The kernel copy_inputs of codegen_templates/runtime/transfer.cu, which copies small inputs from
// page-locked memory to the GPU. As the first node of a graph it ends sooner than a copy node,
// which uses another engine for which kernels have to wait; and the next kernel may be launched
// while it runs.
class CudaInputCopy {
 public:
  static constexpr size_t kWordBytes = 16;
  static constexpr size_t kMostSegments = 8;
  struct Segment {
    CUdeviceptr to = 0, from = 0;  // multiples of kWordBytes
    uint64_t words = 0;
  };

  explicit CudaInputCopy(CUfunction function) : function_(function) {}
  // Whether the kernel exists: the artifact must have machine code for the GPU.
  explicit operator bool() const { return function_ != nullptr; }
  // The launch that copies up to kMostSegments segments.
  KernelOperation CopyOf(std::span<const Segment> segments) const;

 private:
  static constexpr unsigned kBlockSize = 256;
  CUfunction function_ = nullptr;
};

}  // namespace fusec::runtime
