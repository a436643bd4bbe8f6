#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/src/cuda/cuda_driver.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Calls a function of the driver through a CudaContext and checks its result:
// FUSEC_RT_TRY(FUSEC_CUDA(context, "the arena", cuMemAlloc, &pointer, bytes)).
#define FUSEC_CUDA(context, purpose, function, ...) \
  (context).Check((context).driver().function(__VA_ARGS__), #function, purpose)

struct Gpu {
  CUdevice device = 0;
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 90 for 9.0
};
StatusOr<Gpu> FindGpu(const CudaDriver& driver, int ordinal);

// The primary context of one GPU, retained, so that memory is shared with whatever else in the
// process uses the GPU.
class CudaContext {
 public:
  // An ordinal that the machine lacks is a FUSEC_NO_DEVICE error that gives the number of GPUs.
  static StatusOr<std::unique_ptr<CudaContext>> Create(int ordinal);
  // With the functions of `driver`, which must outlive the context: tests bring a driver of their
  // own.
  static StatusOr<std::unique_ptr<CudaContext>> Create(const CudaDriver& driver, int ordinal);
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext();

  const CudaDriver& driver() const { return *driver_; }
  const std::string& gpu_name() const { return gpu_.name; }
  int capability() const { return gpu_.capability; }
  CUcontext handle() const { return context_; }
  CUdevice device() const { return gpu_.device; }
  StatusOr<int> Attribute(CUdevice_attribute attribute) const;

  // Like CudaDriver::Check. Remembers an error after which the GPU refuses all work of this
  // process.
  Status Check(CUresult result, const char* call, std::string_view purpose = {}) const;
  // The error that made the context unusable, if one did.
  Status Usable() const;

 private:
  CudaContext() = default;
  const CudaDriver* driver_ = nullptr;
  Gpu gpu_;
  CUcontext context_ = nullptr;
  mutable std::atomic<bool> is_broken_ = false;
  mutable std::mutex mutex_;
  mutable std::string broken_by_;  // text of the first such error
};

// Makes a context current for the calling thread while it lives; what was current before comes
// back.
class ScopedContext {
 public:
  explicit ScopedContext(const CudaContext& context);
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  ~ScopedContext();

 private:
  const CudaContext& context_;
  bool pushed_ = false;
};

// An owned handle of the driver; Destroy is the member of CudaDriver that ends it. The context must
// outlive it.
template <class Handle, auto Destroy>
class CudaOwner {
 public:
  CudaOwner() = default;
  CudaOwner(const CudaContext& context, Handle handle) : context_(&context), handle_(handle) {}
  CudaOwner(CudaOwner&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        handle_(std::exchange(other.handle_, {})) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ == Handle{}) return;
    ScopedContext scope(*context_);
    // Nothing can be done about a failure here, and after a fatal device error every call fails.
    static_cast<void>((context_->driver().*Destroy)(handle_));
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  const CudaContext* context_ = nullptr;
  Handle handle_{};
};

using CudaModule = CudaOwner<CUmodule, &CudaDriver::cuModuleUnload>;
using CudaStream = CudaOwner<CUstream, &CudaDriver::cuStreamDestroy>;
using CudaEvent = CudaOwner<CUevent, &CudaDriver::cuEventDestroy>;
using CudaGraph = CudaOwner<CUgraph, &CudaDriver::cuGraphDestroy>;
using CudaGraphExec = CudaOwner<CUgraphExec, &CudaDriver::cuGraphExecDestroy>;
using DeviceMemory = CudaOwner<CUdeviceptr, &CudaDriver::cuMemFree>;
using PinnedMemory =
    CudaOwner<void*, &CudaDriver::cuMemFreeHost>;  // page-locked, seen by the GPU too

// These need the context to be current. Zero bytes give an empty owner. The error of an allocation
// that does not fit says what it was for, its size, and how much of the GPU's memory is free.
StatusOr<DeviceMemory> AllocateDevice(const CudaContext& context, size_t bytes,
                                      std::string_view purpose);
StatusOr<PinnedMemory> AllocatePinned(const CudaContext& context, size_t bytes,
                                      std::string_view purpose);
StatusOr<CudaStream> CreateStream(const CudaContext& context);
StatusOr<CudaEvent> CreateEvent(const CudaContext& context, bool with_timing);

}  // namespace fusec::runtime
