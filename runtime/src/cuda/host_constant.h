#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// A constant in page-locked memory of the host, where kernels read it over the bus: a table that
// --table-placement keeps out of the GPU's memory.
class HostConstant {
 public:
  // Memory for that many bytes, with any contents. Needs the context to be current. Where the
  // driver gives no page-locked memory, pageable memory is locked instead, and a warning on stderr
  // names `constant` and its size; without that, too, the error (FUSEC_NO_DEVICE) says both
  // reasons.
  static StatusOr<HostConstant> Allocate(const CudaContext& context, size_t bytes,
                                         const std::string& constant);

  std::span<std::byte> bytes() const { return bytes_; }
  CUdeviceptr address() const { return address_; }  // of the same bytes, for kernels

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

// Bytes of the host and where they go to.
struct HostCopy {
  std::byte* to;
  std::span<const std::byte> from;
};
// Copies all of it, with several threads where that is faster.
void CopyOnHost(std::span<const HostCopy> copies);
// Enqueues the same, which `copies` must outlive: the driver calls it when all before it is done.
Status EnqueueCopyOnHost(const CudaContext& context, const std::vector<HostCopy>& copies,
                         CUstream stream);

}  // namespace fusec::runtime
