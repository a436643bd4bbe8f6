#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/cuda/host_constant.h"

namespace fusec::runtime {

// Constants that are other than those of a program, on their way to it: in memory of their own on
// the GPU, but for those that lie in host memory, which are copied from the mapped file.
struct ChangedWeights {
  DeviceMemory memory;
  std::map<int, CUdeviceptr> addresses;  // by buffer
  std::vector<int> on_host;              // buffers
  std::vector<HostCopy> host_copies;     // of these, once they are enqueued
};

// The artifact's constants for a GPU: in one allocation of its memory, and those that its manifest
// places there in host memory.
class CudaWeights {
 public:
  // Needs the context to be current; returns when all is there. Several threads read the mapped
  // file into page-locked memory while earlier parts travel to the GPU.
  static StatusOr<CudaWeights> Upload(const CudaContext& context, const Artifact& artifact);
  // The constants that differ from those of `old`, and those of `written`, which the program has
  // with other rows.
  static StatusOr<ChangedWeights> UploadChanged(const CudaContext& context,
                                                const Artifact& artifact, const Artifact& old,
                                                const std::set<int>& written);
  // Enqueues copies of changed constants over these, but for `kept` parts. `changed` and
  // `artifact`, which has them, must outlive the copies.
  Status EnqueueCopies(const CudaContext& context, ChangedWeights& changed,
                       const Artifact& artifact, std::span<const ConstantPart> kept,
                       CUstream stream) const;
  // Enqueues a copy of bytes on the GPU over a part of a constant.
  Status EnqueueCopy(const CudaContext& context, const ConstantPart& part, CUdeviceptr from,
                     CUstream stream) const;

  // For kernels, by buffer, at a multiple of 256; 0 for buffers that are not constants.
  CUdeviceptr Address(int buffer) const { return addresses_[static_cast<size_t>(buffer)]; }
  size_t bytes() const { return bytes_; }  // of the GPU's memory

 private:
  DeviceMemory memory_;
  size_t bytes_ = 0;
  std::map<int, HostConstant> on_host_;  // by buffer
  std::vector<CUdeviceptr> addresses_;
};

// Bytes on a GPU, each of the given ones at a multiple of 256.
struct UploadedBytes {
  DeviceMemory memory;
  std::vector<CUdeviceptr> addresses;
  size_t bytes = 0;  // of the memory
};
// Needs the context to be current; returns when all is there.
StatusOr<UploadedBytes> UploadBytes(const CudaContext& context,
                                    std::span<const std::vector<std::byte>> contents);

}  // namespace fusec::runtime
