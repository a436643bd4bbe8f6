#pragma once

#include <cstddef>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/cuda/growing_memory.h"
#include "runtime/src/cuda/tensor_places.h"

namespace fusec::runtime {

// Copies of host tensors to the GPU and back, through a page-locked buffer of the host and a buffer
// on the GPU. A StagingLayout gives the place of each tensor in these buffers.
//
// The class owns both buffers, the events of copies in pieces, and the list of outputs that wait in
// the host's buffer until they are copied to the caller. Only one run at a time has its tensors in
// the buffers: before Grow and SendInputs, which change them, earlier runs must have ended. The
// executor ensures this, and that one thread at a time calls with the context current. Errors are
// the driver's. Copies allocate only events, and only if a run has more pieces than all earlier
// runs.
class Staging {
 public:
  explicit Staging(const CudaDevice& device) : device_(device) {}

  bool Holds(const StagingLayout& layout) const {
    return host_.Holds(layout.host_bytes) && on_device_.Holds(layout.device_bytes);
  }
  // Grows the buffers for the layout; the addresses below change.
  Status Grow(const StagingLayout& layout);

  CUdeviceptr device_address() const { return on_device_.get(); }  // the GPU's buffer
  CUdeviceptr host_address() const { return host_address_; }       // the host's, for kernels
  size_t device_bytes() const { return on_device_.bytes(); }

  // Appends the operation that begins a run, if the run's graph copies inputs.
  void AppendCopyOfInputs(const RunBindings& bindings, const StagingLayout& layout,
                          std::vector<Operation>& operations) const;
  // Enqueues the copies of all other inputs. The caller may change pageable memory after the
  // return.
  Status SendInputs(const RunBindings& bindings, const StagingLayout& layout, CUstream stream);

  // Enqueues the copies of outputs after a run, and records the outputs that pass through the
  // host's buffer. When the host waits for the run, TakePieces waits for the copies of outputs in
  // pieces and copies each piece to the caller as it arrives; TakeWhole copies the other outputs
  // after the run has ended; DropOutputs discards them.
  Status FetchOutputs(const RunBindings& bindings, const StagingLayout& layout, CUstream stream);
  bool has_outputs() const { return !outputs_.empty(); }
  Status TakePieces();
  void TakeWhole();
  void DropOutputs() { outputs_.clear(); }

 private:
  struct WaitingOutput {
    StagedTensor staged;
    void* user = nullptr;
    size_t first_piece = 0;  // kPieces: index of the first piece in pieces_done_
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
