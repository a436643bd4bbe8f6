#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/artifact/step_sizes.h"
#include "runtime/src/bench.h"
#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/cuda/operation_graph.h"
#include "runtime/src/executor.h"
#include "runtime/src/index_error.h"

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
// Whoever waits for a run reads a word in page-locked memory, which the last kernel of the graph
// writes (end_run): it is there before the driver knows that the graph has ended. Where copies
// follow the graph, and for runs that nobody waits for at once, there is no such kernel.
//
// A run with dims and addresses of late allocates nothing.
class CudaExecutor : public Executor {
 public:
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(CudaDevice& device);
  ~CudaExecutor() override;

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override;
  void FinishEarlier() override;
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
  // See MeasureTogether and MeasureSteps in bench.h.
  StatusOr<std::vector<double>> MeasureTogether(std::span<const RunBindings> sets, int samples,
                                                int replays);
  StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<const RunBindings> sets, int samples);

 private:
  // Executables of one graph, which is how many sets of dims and addresses can go round without new
  // parameters, and those of all graphs together.
  static constexpr size_t kExecutables = 8;
  static constexpr size_t kMaxExecutables = 64;
  static constexpr size_t kMaxMappedBytes = 64 << 10;

  // More are copied by a node of the graph: the copy engine has more bytes under way than a few
  // blocks.
  static constexpr size_t kMaxCopyKernelBytes = 64 << 10;
  // Smaller ones are copied to staging faster than a graph gets other addresses.
  static constexpr size_t kMinPinnedReadBytes = 8 << 10;
  // All of these that the kernel may copy, or fewer and staging.
  static_assert(kMaxCopyKernelBytes / kMinPinnedReadBytes <= CudaInputCopy::kMostSegments);
  // Smaller ones are copied to staging faster than the driver takes a copy.
  static constexpr size_t kMinPinnedInputBytes = 32 << 10;
  // Less is copied faster than threads are woken.
  static constexpr size_t kMinThreadsBytes = 256 << 10;

  // How an input or output gets to or from where kernels have it.
  enum class Place : uint8_t {
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
    Place place = Place::kStaged;
    size_t offset = 0;  // in the staging buffers
    size_t bytes = 0;
  };
  // Where the host tensors of a run lie in staging; those of kPinned in the device's buffer only.
  struct Staging {
    std::vector<StagedTensor> inputs, outputs;
    size_t graph_bytes = 0;  // all inputs of kStaged, at offset 0
    size_t host_bytes = 0, device_bytes = 0;
  };
  struct RunningOutput {
    StagedTensor staged;
    void* user = nullptr;
    size_t first_piece = 0;  // of kPieces, in pieces_done_
  };
  struct Addresses {
    std::vector<CUdeviceptr> buffers;
    Staging staging;
  };
  // Operations ready to launch.
  struct Prepared {
    bool is_current = false;    // whether they are those for the key
    std::vector<uint64_t> key;  // see MakeKey
    Staging staging;
    OperationGraph graph;
    std::vector<Operation> operations;  // instead of a graph, with FUSEC_CUDA_GRAPH=0
    bool is_empty = false;              // nothing to launch
    bool signals_end = false;           // the last node is end_run
  };

  explicit CudaExecutor(CudaDevice& device) : device_(device), context_(device.context()) {}
  Status Initialize();

  // cuda_locate.cc
  Place PlaceOfInput(const TensorBinding& binding) const;
  Place PlaceOfOutput(size_t output, const TensorBinding& binding) const;
  void ChooseInputPlaces(const RunBindings& bindings);
  void MakeKey(const RunBindings& bindings, bool is_awaited);
  Staging LayOutStaging(const RunBindings& bindings) const;
  StatusOr<Addresses> Locate(const RunBindings& bindings);
  Status Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes);

  // cuda_resolve.cc
  void AddCopyOfInputs(const RunBindings& bindings, const Staging& staging,
                       std::vector<Operation>& operations) const;
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

  // cuda_transfer.cc
  Status SendInputs(const RunBindings& bindings, const Staging& staging, CUstream stream);
  Status SendPieces(const StagedTensor& input, const void* data, CUstream stream);
  Status FetchOutputs(const RunBindings& bindings, const Staging& staging, CUstream stream);
  Status TakePieces(const RunningOutput& output);
  static void CopyOnHost(std::byte* to, const std::byte* from, size_t bytes, int threads);
  Status Wait();
  bool SeesEnd() const;

  // cuda_capture.cc
  Status Capture(std::vector<Operation>& operations);
  Status WarmUp(const MatmulOperation& matmul);
  bool IsOwn(CUdeviceptr address) const;

  // A run that is awaited is waited for as soon as it is launched.
  StatusOr<const Prepared*> Prepare(const RunBindings& bindings, bool is_awaited);
  Status PrepareGraph(std::vector<Operation> operations);
  void MakeRoom(size_t count);
  Status Launch(const Prepared& prepared, CUstream stream);
  OperationEnvironment Environment() const;
  std::byte* StagingAt(size_t offset) const {
    return static_cast<std::byte*>(staging_host_.get()) + offset;
  }

  struct DeviceSets;
  StatusOr<DeviceSets> CopyToDevice(std::span<const RunBindings> sets);
  StatusOr<std::vector<std::vector<Operation>>> ResolveAll(const DeviceSets& sets);
  StatusOr<OperationGraph> BuildChain(std::vector<Operation> operations);

  Status Start(const RunBindings& bindings, CUstream stream, bool is_awaited);
  Status EnqueueRun(const Prepared& prepared, const RunBindings& bindings, CUstream stream);
  Status Finish();  // here and below the context is current
  Status CheckErrors();

  CudaDevice& device_;
  const CudaContext& context_;
  CudaStream stream_;
  CudaEvent done_;  // recorded behind every run on a stream of the caller
  DeviceMemory workspace_;
  // Of the host, written to by kernels.
  struct Reports {
    IndexError error;
    uint32_t has_ended = 0;
  };
  Reports& reports() const { return *static_cast<Reports*>(reports_.get()); }
  PinnedMemory reports_;
  CUdeviceptr reports_address_ = 0, staging_host_address_ = 0;  // for the GPU
  DeviceMemory arena_, staging_device_;
  PinnedMemory staging_host_;
  size_t arena_bytes_ = 0, staging_device_bytes_ = 0, staging_host_bytes_ = 0;

  std::list<Prepared> prepared_;  // used last first
  std::set<MatmulProblem> warmed_up_;
  std::vector<uint64_t> key_;                        // of the run that begins
  bool uses_staging_ = false;                        // likewise, the host's
  bool signals_end_ = false;                         // likewise
  std::vector<Place> input_places_, output_places_;  // likewise
  std::vector<bool> only_stored_to_;                 // by output: by kernels, and never read

  // Of the runs that are enqueued and not yet waited for.
  bool running_ = false, running_signals_end_ = false;
  CUstream running_stream_ = nullptr;
  std::vector<RunningOutput> running_outputs_;  // to copy out of staging
  std::vector<CudaEvent> pieces_done_;          // in the order of their copies
  std::vector<int64_t> running_symbols_;
  Status delayed_error_;  // found when a later run had to wait for an earlier one
};

}  // namespace fusec::runtime
