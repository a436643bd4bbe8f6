#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/cuda_device.h"
#include "runtime/src/cuda_operation.h"
#include "runtime/src/executor.h"
#include "runtime/src/index_error.h"
#include "runtime/src/step_sizes.h"

namespace fusec::runtime {

// Runs a program's steps on a GPU: one CUDA graph for the bound dims and addresses, launched once a
// run. The graphs used last are kept, so that going back to earlier dims costs a look-up.
// FUSEC_CUDA_GRAPH=0 enqueues the steps one by one instead and waits for each, so that an error
// names its kernel.
//
// Host inputs travel through one page-locked buffer and one copy to the GPU; host outputs likewise,
// except that memory of Device::AllocateHost is written directly. Device memory is used in place.
class CudaExecutor : public Executor {
 public:
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(CudaDevice& device);
  ~CudaExecutor() override;

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override;
  StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) override;

  // `samples` times the microseconds of one run: each the mean over `replays` runs back to back,
  // which go round `sets`. Inputs and outputs lie in device memory (copies of them, where a set has
  // host memory). All sets have the same dims. See bench.h.
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                        int replays);

 private:
  static constexpr size_t kMaxGraphs = 8;

  // A range of device memory staged through page-locked memory.
  struct StagedTensor {
    void* user = nullptr;  // the bound host memory
    size_t offset = 0;     // in both staging buffers
    size_t bytes = 0;
  };
  // Where everything lies for one set of bindings.
  struct Addresses {
    std::vector<CUdeviceptr> buffers;
    std::vector<StagedTensor> inputs, outputs;  // host memory, packed into one copy each way
    std::vector<CopyOperation>
        direct_outputs;      // from the device part of the staging to page-locked memory
    size_t input_bytes = 0;  // all staged inputs, at offset 0
    size_t output_begin = 0, output_bytes = 0;  // all staged outputs
    size_t host_bytes = 0,
           device_bytes = 0;  // of staging; direct outputs only need the device part
  };
  // The operations of one set of bindings, and their graph.
  struct Prepared {
    std::vector<int64_t> key;
    std::vector<Operation> operations;
    OperationGraph graph;
  };

  explicit CudaExecutor(CudaDevice& device) : device_(device), context_(device.context()) {}
  Status Initialize();

  StatusOr<Addresses> Locate(const RunBindings& bindings);
  Addresses LayOutStaging(const RunBindings& bindings) const;
  Status Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes);
  StatusOr<Prepared*> Prepare(const RunBindings& bindings, const Addresses& addresses);
  Status MakeGraph(Prepared& prepared, std::vector<Operation> operations);
  StatusOr<std::vector<Operation>> Resolve(const RunBindings& bindings, const Addresses& addresses);
  Status ResolveKernel(const Step& step, const RunBindings& bindings, const Addresses& addresses,
                       std::vector<Operation>& operations);
  Status ResolveMatmul(const Step& step, const RunBindings& bindings, const Addresses& addresses,
                       std::vector<Operation>& operations);
  Status AddEpilogue(const Step& step, const MatmulSizes& sizes, const MatmulPointers& pointers,
                     bool from_zero, std::vector<Operation>& operations);
  Status WarmUp(const std::vector<Operation>& operations);
  bool IsOwn(CUdeviceptr address) const;
  Status Launch(const Prepared& prepared, CUstream stream);
  OperationEnvironment Environment() const;

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
  CUdeviceptr errors_address_ = 0;
  DeviceMemory arena_, staging_device_;
  PinnedMemory staging_host_;
  size_t arena_bytes_ = 0, staging_device_bytes_ = 0, staging_host_bytes_ = 0;

  std::list<Prepared> prepared_;       // used last first
  std::set<MatmulProblem> warmed_up_;  // products that ran once outside of a capture

  // Of the runs that are enqueued and not yet waited for.
  bool running_ = false;
  CUstream running_stream_ = nullptr;
  std::vector<StagedTensor> running_outputs_;
  std::vector<int64_t> running_symbols_;
  Status delayed_error_;  // found when a later run had to wait for an earlier one
};

}  // namespace fusec::runtime
