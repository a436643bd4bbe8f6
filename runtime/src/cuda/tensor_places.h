#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/executor.h"

namespace fusec::runtime {

// The way of an input or output between the caller's memory and the memory that kernels use.
enum class TensorPlace : uint8_t {
  kDevice,        // memory of the GPU, in place
  kPinned,        // page-locked memory, by a copy on the stream
  kPinnedRead,    // an input in memory of AllocateHost, by the kernel that copies inputs
  kPinnedMapped,  // an output in memory of AllocateHost, by the stores of kernels
  kStaged,        // an input in any host memory, through staging, by the copy of the graph
  kStagedMapped,  // an output in any host memory, by the stores of kernels to staging
  kPieces,        // pageable memory, through staging, by copies on the stream
};

// A host tensor that has a place in the staging buffers.
struct StagedTensor {
  size_t tensor = 0;  // its index among the inputs or outputs
  TensorPlace place = TensorPlace::kStaged;
  size_t offset = 0;  // in the staging buffers
  size_t bytes = 0;
};

// The places of a run's host tensors in the staging buffers; tensors of kPinned and kPinnedRead are
// in the device's buffer only.
struct StagingLayout {
  std::vector<StagedTensor> inputs, outputs;
  size_t graph_bytes = 0;  // all inputs of kStaged, at offset 0
  size_t host_bytes = 0, device_bytes = 0;
};

// Chooses the places of a run's tensors by their sizes and the kind of their memory.
//
// Device memory is used in place. Small host tensors pass through one page-locked buffer; inputs
// are copied by one operation of the graph (the runtime's own kernel, or a copy node). Kernels
// store small outputs directly into page-locked memory, which saves a copy node: kernels do not
// wait for such a store, so over a bus of 50 GB/s the stores of 64 KiB take about as long as that
// node. Inputs are copied because many blocks may read each of them repeatedly. Large host tensors
// are copied on the stream, before and after the graph, so that their addresses are not part of the
// graph and the GPU copies while the host continues. Page-locked memory is copied directly, other
// memory in pieces: the host copies one piece between the caller's memory and the buffer while the
// GPU copies another.
//
// A choice is valid until the next one; one thread uses the class at a time. A choice has no
// errors, and allocates no memory after the first choice for as many tensors.
class TensorPlaces {
 public:
  // More bytes are copied by a copy node: the copy engine has more bytes in flight than a few
  // blocks.
  static constexpr size_t kMaxCopyKernelBytes = 64 << 10;
  // Fewer bytes are copied by one thread, which takes less time than waking others.
  static constexpr size_t kMinThreadsBytes = 256 << 10;
  // The bytes that generated kernels read and write at once; memory that they use in place must be
  // aligned to it.
  static constexpr uintptr_t kVectorBytes = 16;

  explicit TensorPlaces(const CudaDevice& device);

  void Choose(const RunBindings& bindings);
  // These functions refer to the last choice, and to the bindings that it was made for.
  TensorPlace input(size_t i) const { return inputs_[i]; }
  TensorPlace output(size_t i) const { return outputs_[i]; }
  // Whether a tensor that is not empty passes through the host's staging buffer.
  bool uses_host_staging() const { return uses_host_staging_; }
  // Whether outputs are copied after the graph.
  bool copies_behind_graph() const { return copies_behind_graph_; }

  // Appends the parts of the choice on which the operations of a run depend: the places, and the
  // addresses that kernels get.
  void AppendTo(std::vector<uint64_t>& key, const RunBindings& bindings) const;
  StagingLayout LayOut(const RunBindings& bindings) const;

 private:
  TensorPlace PlaceOfInput(const TensorBinding& binding) const;
  TensorPlace PlaceOfOutput(size_t output, const TensorBinding& binding) const;

  const CudaDevice& device_;
  std::vector<bool> may_be_mapped_;  // by output: only stored to, by kernels that permit this
  std::vector<TensorPlace> inputs_, outputs_;
  bool uses_host_staging_ = false, copies_behind_graph_ = false;
};

}  // namespace fusec::runtime
