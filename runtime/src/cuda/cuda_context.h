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

// The retained primary context of one GPU. Other users of the GPU in this process have the same
// context and can therefore share memory with the runtime.
class CudaContext {
 public:
  // FUSEC_NO_DEVICE: the machine has no such GPU; the error says how many it has.
  static StatusOr<std::unique_ptr<CudaContext>> Create(int ordinal);
  // Uses the functions of `driver`, which must outlive the context; tests pass an emulated driver.
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

  // Like CudaDriver::Check. It also remembers an error after which the GPU refuses all work of this
  // process (see Usable).
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

// Makes a context current for the calling thread as long as the object exists, and then restores
// the previous one.
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

// Owns a handle of the driver; Destroy is the function of CudaDriver that frees it. The context
// must outlive the owner.
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

// The context must be current for these functions. Zero bytes give an empty owner. If an allocation
// fails, the error states its purpose, its size, and how much of the GPU's memory is free.
StatusOr<DeviceMemory> AllocateDevice(const CudaContext& context, size_t bytes,
                                      std::string_view purpose);
StatusOr<PinnedMemory> AllocatePinned(const CudaContext& context, size_t bytes,
                                      std::string_view purpose);
StatusOr<CudaStream> CreateStream(const CudaContext& context);
StatusOr<CudaEvent> CreateEvent(const CudaContext& context, bool with_timing);

}  // namespace fusec::runtime
