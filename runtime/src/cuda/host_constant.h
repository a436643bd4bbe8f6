#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// A constant in page-locked host memory, which kernels read over the bus: a table that
// --table-placement keeps out of the GPU's memory.
class HostConstant {
 public:
  // Allocates uninitialized memory. The context must be current. If the driver cannot allocate
  // page-locked memory, pageable memory is allocated and registered instead, and a warning on
  // stderr names `constant` and its size. If this fails, too, the error (FUSEC_NO_DEVICE) gives
  // both reasons.
  static StatusOr<HostConstant> Allocate(const CudaContext& context, size_t bytes,
                                         const std::string& constant);

  std::span<std::byte> bytes() const { return bytes_; }
  CUdeviceptr address() const { return address_; }  // address of the same bytes for kernels

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Registration = CudaOwner<void*, &CudaDriver::cuMemHostUnregister>;

  Status LockPageable(const CudaContext& context, size_t bytes);

  PinnedMemory pinned_;
  std::unique_ptr<std::byte, Free> pageable_;  // outlives its registration
  Registration registration_;
  std::span<std::byte> bytes_;
  CUdeviceptr address_ = 0;
};

// A copy between two places in host memory.
struct HostCopy {
  std::byte* to;
  std::span<const std::byte> from;
};
// Does all copies, with several threads if that is faster.
void CopyOnHost(std::span<const HostCopy> copies);
// Enqueues the copies as a host function, which the driver calls after the earlier work of the
// stream. `copies` must live until then.
Status EnqueueCopyOnHost(const CudaContext& context, const std::vector<HostCopy>& copies,
                         CUstream stream);

}  // namespace fusec::runtime
