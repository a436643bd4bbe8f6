#pragma once

#include <set>
#include <span>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// The artifact's constants on a GPU, in one allocation.
class CudaWeights {
 public:
  // Needs the context to be current; returns when all is there. Several threads read the mapped
  // file into page-locked memory while earlier parts travel to the GPU. With `old`, only those
  // constants that differ from its own are uploaded, and those of `written`, which the GPU has with
  // other rows.
  static StatusOr<CudaWeights> Upload(const CudaContext& context, const Artifact& artifact,
                                      const Artifact* old = nullptr,
                                      const std::set<int>& written = {});
  // Enqueues copies of the constants that `changed` has over these, but for `kept` parts. Both are
  // of `artifact`.
  Status EnqueueCopies(const CudaContext& context, const CudaWeights& changed,
                       const Artifact& artifact, std::span<const ConstantPart> kept,
                       CUstream stream) const;

  // By buffer, at a multiple of 256; 0 for buffers that are not constants.
  CUdeviceptr Address(int buffer) const { return addresses_[static_cast<size_t>(buffer)]; }
  size_t bytes() const { return bytes_; }  // of the allocation

 private:
  DeviceMemory memory_;
  size_t bytes_ = 0;
  std::vector<CUdeviceptr> addresses_;
};

// Bytes on a GPU, each of the given ones at a multiple of 256.
struct UploadedBytes {
  DeviceMemory memory;
  std::vector<CUdeviceptr> addresses;
};
// Needs the context to be current; returns when all is there.
StatusOr<UploadedBytes> UploadBytes(const CudaContext& context,
                                    std::span<const std::vector<std::byte>> contents);

}  // namespace fusec::runtime
