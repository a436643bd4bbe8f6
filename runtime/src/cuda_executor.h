#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/bench.h"
#include "runtime/src/cuda_device.h"
#include "runtime/src/cuda_operation.h"
#include "runtime/src/executor.h"
#include "runtime/src/index_error.h"
#include "runtime/src/operation_graph.h"
#include "runtime/src/step_sizes.h"

namespace fusec::runtime {

// Runs a program's steps on a GPU: a CUDA graph with the bound dims and addresses as parameters of
// its nodes, launched once a run. Where the same steps run for other dims, with another kernel
// among alternatives too, or for other addresses, an executable of that graph gets new parameters;
// there are several, so that going back to dims or addresses of late costs a look-up. A graph is
// built where what runs has another shape (see OperationGraph): a product of the library of other
// sizes or addresses, a copy between other places, or an empty tensor. Those are kept too.
// FUSEC_CUDA_GRAPH=0 enqueues the steps one by one instead and waits for each, so that an error
// names its kernel.
//
// Host inputs travel through one page-locked buffer and one copy to the GPU; host outputs likewise,
// except that memory of Device::AllocateHost is written directly. Device memory is used in place.
// Kernels store small outputs into page-locked memory themselves, which saves the node of the copy:
// such a store is not waited for, so over a bus of 50 GB/s 64 KiB take about as long as that node.
// Inputs are copied, since many blocks may read each of them again and again.
//
// A run with dims and addresses of late allocates nothing.
class CudaExecutor : public Executor {
 public:
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(CudaDevice& device);
  ~CudaExecutor() override;

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override;
  StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) override;
  void* stream() const override { return stream_.get(); }
  size_t scratch_bytes() const override {
    return arena_bytes_ + staging_device_bytes_ + (workspace_ ? CublasLt::kWorkspaceBytes : 0);
  }

  // `samples` times the microseconds of one run: each the mean over `replays` runs back to back,
  // which go round `sets`. Inputs and outputs lie in device memory (copies of them, where a set has
  // host memory). All sets have the same dims. See bench.h.
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                        int replays);
  // See MeasureSteps in bench.h.
  StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<const RunBindings> sets, int samples);

 private:
  // Executables of one graph, which is how many sets of dims and addresses can go round without new
  // parameters, and those of all graphs together.
  static constexpr size_t kExecutables = 8;
  static constexpr size_t kMaxExecutables = 64;
  static constexpr size_t kMaxMappedBytes = 64 << 10;

  enum class OutputPlace : uint8_t {
    kDevice,        // memory of the GPU, in place
    kPinned,        // memory of AllocateHost, by a copy
    kPinnedMapped,  // likewise, by the stores of kernels
    kStaged,        // other host memory, through staging and by a copy to there
    kStagedMapped,  // likewise, by the stores of kernels to there
  };

  // A host tensor that travels through the page-locked buffer.
  struct StagedTensor {
    size_t tensor = 0;  // its number among the inputs or outputs
    size_t offset = 0;  // in both staging buffers
    size_t bytes = 0;
  };
  // Where the host tensors of a run lie in staging.
  struct Staging {
    std::vector<StagedTensor> inputs, outputs;
    size_t input_bytes = 0;                     // all inputs, at offset 0
    size_t output_begin = 0, output_bytes = 0;  // all outputs that are copied
    std::vector<StagedTensor> pinned_outputs;   // in the device's buffer only
    size_t host_bytes = 0, device_bytes = 0;
  };
  struct Addresses {
    std::vector<CUdeviceptr> buffers;
    Staging staging;
    std::vector<CopyOperation> copies;  // of outputs to memory of AllocateHost
  };
  // Operations ready to launch.
  struct Prepared {
    bool is_current = false;    // whether they are those for the key
    std::vector<uint64_t> key;  // see MakeKey
    Staging staging;
    OperationGraph graph;
    std::vector<Operation> operations;  // instead of a graph, with FUSEC_CUDA_GRAPH=0
    bool is_empty = false;              // nothing to launch
  };

  explicit CudaExecutor(CudaDevice& device) : device_(device), context_(device.context()) {}
  Status Initialize();

  // cuda_locate.cc
  OutputPlace PlaceOf(size_t output, const TensorBinding& binding) const;
  void MakeKey(const RunBindings& bindings);
  void LayOutStaging(const RunBindings& bindings, Staging& staging) const;
  CUdeviceptr AddressOf(size_t output, const TensorBinding& binding, const Staging& staging) const;
  StatusOr<Addresses> Locate(const RunBindings& bindings);
  Status Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes);

  // cuda_resolve.cc
  StatusOr<std::vector<Operation>> Resolve(const RunBindings& bindings, const Addresses& addresses);
  Status ResolveKernel(const Step& step, const RunBindings& bindings, const Addresses& addresses,
                       std::vector<Operation>& operations);
  Status ResolveMatmul(const Step& step, const RunBindings& bindings, const Addresses& addresses,
                       std::vector<Operation>& operations);
  // One of the library calls that make a batch.
  Status ResolveCall(const Step& step, MatmulSizes sizes, const Addresses& addresses,
                     std::vector<Operation>& operations);
  Status AddEpilogue(const Step& step, const MatmulSizes& sizes, const MatmulPointers& pointers,
                     bool from_zero, std::vector<Operation>& operations);

  // cuda_capture.cc
  Status Capture(std::vector<Operation>& operations);
  Status WarmUp(const MatmulOperation& matmul);
  bool IsOwn(CUdeviceptr address) const;

  StatusOr<const Prepared*> Prepare(const RunBindings& bindings);
  Status PrepareGraph(std::vector<Operation> operations);
  void MakeRoom(size_t count);
  Status Launch(const Prepared& prepared, CUstream stream);
  OperationEnvironment Environment() const;
  std::byte* StagingAt(size_t offset) const {
    return static_cast<std::byte*>(staging_host_.get()) + offset;
  }

  struct DeviceSets;
  StatusOr<DeviceSets> CopyToDevice(std::span<const RunBindings> sets);

  Status Start(const RunBindings& bindings, CUstream stream);
  Status Finish();
  void FinishEarlier();
  Status CheckErrors();

  CudaDevice& device_;
  const CudaContext& context_;
  CudaStream stream_;
  CudaEvent done_;  // recorded behind every run
  DeviceMemory workspace_;
  PinnedMemory errors_;  // one IndexError, in host memory that kernels write to
  CUdeviceptr errors_address_ = 0, staging_host_address_ = 0;  // for the GPU
  DeviceMemory arena_, staging_device_;
  PinnedMemory staging_host_;
  size_t arena_bytes_ = 0, staging_device_bytes_ = 0, staging_host_bytes_ = 0;

  std::list<Prepared> prepared_;  // used last first
  std::set<MatmulProblem> warmed_up_;
  std::vector<uint64_t> key_;         // of the run that begins
  bool uses_staging_ = false;         // likewise
  std::vector<OutputPlace> places_;   // likewise, by output
  std::vector<bool> only_stored_to_;  // by output: by kernels, and never read

  // Of the runs that are enqueued and not yet waited for.
  bool running_ = false;
  CUstream running_stream_ = nullptr;
  struct RunningOutput {
    void* user = nullptr;
    size_t offset = 0, bytes = 0;
  };
  std::vector<RunningOutput> running_outputs_;  // to copy out of the staging
  std::vector<int64_t> running_symbols_;
  Status delayed_error_;  // found when a later run had to wait for an earlier one
};

}  // namespace fusec::runtime
