#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// How an input or output gets to or from where kernels have it.
enum class TensorPlace : uint8_t {
  kDevice,        // memory of the GPU, in place
  kPinned,        // page-locked memory, by a copy on the stream
  kPinnedRead,    // an input in memory of AllocateHost, by the kernel that copies inputs
  kPinnedMapped,  // an output in memory of AllocateHost, by the stores of kernels
  kStaged,        // an input in any host memory, through staging, by the copy of the graph
  kStagedMapped,  // an output in any host memory, by the stores of kernels to staging
  kPieces,        // pageable memory, through staging, by copies on the stream
};

// A host tensor that has room in staging.
struct StagedTensor {
  size_t tensor = 0;  // its number among the inputs or outputs
  TensorPlace place = TensorPlace::kStaged;
  size_t offset = 0;  // in the staging buffers
  size_t bytes = 0;
};

// Where the host tensors of a run lie in staging; those of kPinned and kPinnedRead in the device's
// buffer only.
struct StagingLayout {
  std::vector<StagedTensor> inputs, outputs;
  size_t graph_bytes = 0;  // all inputs of kStaged, at offset 0
  size_t host_bytes = 0, device_bytes = 0;
};

// Chooses the places of a run's tensors by their sizes and by whose memory they are in.
//
// Device memory is used in place. Small host tensors travel through one page-locked buffer, inputs
// by one copy in the graph (the runtime's own kernel, or a copy node). Kernels store small outputs
// into page-locked memory themselves, which saves the node of the copy: such a store is not waited
// for, so over a bus of 50 GB/s 64 KiB take about as long as that node. Inputs are copied, since
// many blocks may read each of them again and again. Large host tensors are copied on the stream,
// before the graph and behind it, so that their addresses are no part of it and the GPU copies
// while the host goes on: straight from and to page-locked memory, other memory in pieces, of which
// the host copies one between the caller's memory and the buffer while the GPU copies the one
// before.
//
// It owns its choice, which holds until the next one; one thread uses it at a time. A choice has no
// errors, and allocates nothing where one for as many tensors came before.
class TensorPlaces {
 public:
  // More are copied by a node of the graph: the copy engine has more bytes under way than a few
  // blocks.
  static constexpr size_t kMaxCopyKernelBytes = 64 << 10;
  // Less is copied faster than threads are woken.
  static constexpr size_t kMinThreadsBytes = 256 << 10;
  // That generated kernels read and write at a time: memory that they use in place starts at a
  // multiple of it.
  static constexpr uintptr_t kVectorBytes = 16;

  explicit TensorPlaces(const CudaDevice& device);

  void Choose(const RunBindings& bindings);
  // Here and below of the last choice, for whose bindings it was made.
  TensorPlace input(size_t i) const { return inputs_[i]; }
  TensorPlace output(size_t i) const { return outputs_[i]; }
  // Whether a tensor with bytes goes through the host's staging buffer.
  bool uses_host_staging() const { return uses_host_staging_; }
  // Whether outputs are copied behind the graph.
  bool copies_behind_graph() const { return copies_behind_graph_; }

  // Appends all that the operations of a run depend on of the choice: the places, and the addresses
  // that kernels get.
  void AppendTo(std::vector<uint64_t>& key, const RunBindings& bindings) const;
  StagingLayout LayOut(const RunBindings& bindings) const;

 private:
  TensorPlace PlaceOfInput(const TensorBinding& binding) const;
  TensorPlace PlaceOfOutput(size_t output, const TensorBinding& binding) const;

  const CudaDevice& device_;
  std::vector<bool> may_be_mapped_;  // by output: only stored to, by kernels that allow it
  std::vector<TensorPlace> inputs_, outputs_;
  bool uses_host_staging_ = false, copies_behind_graph_ = false;
};

}  // namespace fusec::runtime
