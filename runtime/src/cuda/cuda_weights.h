#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/cuda/host_constant.h"

namespace fusec::runtime {

// New constants of a program before they replace the old ones: in separate memory on the GPU.
// Constants in host memory have no such copy; they are copied from the mapped file.
struct ChangedWeights {
  DeviceMemory memory;
  std::map<int, CUdeviceptr> addresses;  // by buffer
  std::vector<int> on_host;              // changed buffers in host memory
  std::vector<HostCopy> host_copies;     // the copies of these, once they are enqueued
};

// The artifact's constants for a GPU: one allocation of GPU memory, and separate host memory for
// the constants that the manifest places there.
class CudaWeights {
 public:
  // Copies all constants; returns when they are complete. The context must be current. Several
  // threads read the mapped file into page-locked memory while earlier parts are sent to the GPU.
  static StatusOr<CudaWeights> Upload(const CudaContext& context, const Artifact& artifact);
  // Copies the constants that differ from those of `old`, and those in `written`, whose rows have
  // been updated in the program.
  static StatusOr<ChangedWeights> UploadChanged(const CudaContext& context,
                                                const Artifact& artifact, const Artifact& old,
                                                const std::set<int>& written);
  // Enqueues copies of the changed constants over the current ones, except for the parts in `kept`.
  // `changed` and `artifact`, which holds the new constants, must outlive the copies.
  Status EnqueueCopies(const CudaContext& context, ChangedWeights& changed,
                       const Artifact& artifact, std::span<const ConstantPart> kept,
                       CUstream stream) const;
  // Enqueues a copy from GPU memory over a part of a constant.
  Status EnqueueCopy(const CudaContext& context, const ConstantPart& part, CUdeviceptr from,
                     CUstream stream) const;

  // The address of a constant for kernels, aligned to 256 bytes; 0 for buffers that are not
  // constants.
  CUdeviceptr Address(int buffer) const { return addresses_[static_cast<size_t>(buffer)]; }
  size_t bytes() const { return bytes_; }  // bytes of GPU memory

 private:
  DeviceMemory memory_;
  size_t bytes_ = 0;
  std::map<int, HostConstant> on_host_;  // by buffer
  std::vector<CUdeviceptr> addresses_;
};

// Byte strings on a GPU, each aligned to 256 bytes.
struct UploadedBytes {
  DeviceMemory memory;
  std::vector<CUdeviceptr> addresses;
  size_t bytes = 0;  // size of the memory
};
// Copies byte strings to a GPU; returns when they are complete. The context must be current.
StatusOr<UploadedBytes> UploadBytes(const CudaContext& context,
                                    std::span<const std::vector<std::byte>> contents);

}  // namespace fusec::runtime
