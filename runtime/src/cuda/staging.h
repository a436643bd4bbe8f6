#pragma once

#include <cstddef>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/cuda/growing_memory.h"
#include "runtime/src/cuda/tensor_places.h"

namespace fusec::runtime {

// Host tensors on their way to the GPU and back: a page-locked buffer of the host and one of the
// GPU, in which a StagingLayout says where each tensor lies, and the copies between them and the
// caller's memory.
//
// It owns both buffers, the events of copies in pieces, and the list of outputs that wait in the
// host's buffer until the caller gets them. One run at a time has its tensors in the buffers: what
// changes them (Grow, SendInputs) wants earlier runs to have ended, which the executor sees to, as
// it does to one thread at a time and to the context being current. Errors are the driver's. Copies
// allocate nothing but events, where a run has more pieces than all before it.
class Staging {
 public:
  explicit Staging(const CudaDevice& device) : device_(device) {}

  bool Holds(const StagingLayout& layout) const {
    return host_.Holds(layout.host_bytes) && on_device_.Holds(layout.device_bytes);
  }
  // Makes room for the layout; the addresses below change.
  Status Grow(const StagingLayout& layout);

  CUdeviceptr device_address() const { return on_device_.get(); }  // of the GPU's buffer
  CUdeviceptr host_address() const { return host_address_; }       // of the host's, for kernels
  size_t device_bytes() const { return on_device_.bytes(); }

  // The operation that begins a run, if it has inputs that its graph copies.
  void AppendCopyOfInputs(const RunBindings& bindings, const StagingLayout& layout,
                          std::vector<Operation>& operations) const;
  // Enqueues the copies of all other inputs. Whoever calls may change pageable memory when this
  // returns.
  Status SendInputs(const RunBindings& bindings, const StagingLayout& layout, CUstream stream);

  // Enqueues the copies of outputs behind a run, and notes the outputs that come through the host's
  // buffer. When the run is waited for, TakePieces waits for their copies and gives the caller each
  // piece as it comes; TakeWhole, when the run has ended, gives the others; DropOutputs forgets
  // them.
  Status FetchOutputs(const RunBindings& bindings, const StagingLayout& layout, CUstream stream);
  bool has_outputs() const { return !outputs_.empty(); }
  Status TakePieces();
  void TakeWhole();
  void DropOutputs() { outputs_.clear(); }

 private:
  struct WaitingOutput {
    StagedTensor staged;
    void* user = nullptr;
    size_t first_piece = 0;  // of kPieces, in pieces_done_
  };

  std::byte* HostAt(size_t offset) const { return static_cast<std::byte*>(host_.get()) + offset; }
  Status SendPieces(const StagedTensor& input, const void* data, CUstream stream);
  Status FetchPieces(const StagedTensor& output, size_t& pieces, CUstream stream);
  Status TakePiecesOf(const WaitingOutput& output);

  static constexpr size_t kStep = size_t{1} << 16;
  const CudaDevice& device_;
  GrowingMemory<DeviceMemory> on_device_{kStep};
  GrowingMemory<PinnedMemory> host_{kStep};
  CUdeviceptr host_address_ = 0;
  std::vector<WaitingOutput> outputs_;
  std::vector<CudaEvent> pieces_done_;  // in the order of their copies
};

}  // namespace fusec::runtime
