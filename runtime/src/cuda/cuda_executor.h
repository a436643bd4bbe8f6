#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/graph_cache.h"
#include "runtime/src/cuda/growing_memory.h"
#include "runtime/src/cuda/staging.h"
#include "runtime/src/cuda/tensor_places.h"
#include "runtime/src/executor.h"
#include "runtime/src/index_error.h"

namespace fusec::runtime {

struct DeviceSets;

// Runs a program's steps on a GPU: one CUDA graph a run, between copies of large host tensors. A
// run's way is
//   TensorPlaces  how each input and output gets to where kernels have it
//   GraphCache    the graph for these dims, places and addresses, if one is ready; otherwise
//                 the steps become operations (resolve_steps.h), and these a graph
//   Staging       copies of inputs, before the launch, and of outputs, behind it
//
// It owns these three, the arena, the stream that runs of its own take, and the page-locked words
// in which kernels report; it orders runs, so that none begins to use memory that an earlier one
// still needs. One thread uses it at a time. Errors of the data and of the device come when a run
// is waited for; after one of the device that its context does not survive every call fails.
//
// Whoever waits for a run reads a word in page-locked memory, which the last kernel of the graph
// writes (end_run): it is there before the driver knows that the graph has ended. Where copies
// follow the graph, and for runs that nobody waits for at once, there is no such kernel.
//
// A run with recently used dims and addresses allocates nothing.
class CudaExecutor : public Executor {
 public:
  static StatusOr<std::unique_ptr<CudaExecutor>> Create(CudaDevice& device);
  ~CudaExecutor() override;

  Status Run(const RunBindings& bindings) override;
  Status RunAsync(const RunBindings& bindings, void* stream) override;
  Status Synchronize() override;
  void FinishEarlier() override;
  StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) override;
  void* stream() const override { return own_.stream.get(); }
  size_t scratch_bytes() const override {
    return arena_.bytes() + staging_.device_bytes() +
           (own_.workspace ? CublasLt::kWorkspaceBytes : 0);
  }

  // `samples` times the microseconds of one run: each the mean over `replays` runs back to back,
  // which go round `sets`. Inputs and outputs lie in device memory (copies of them, where a set has
  // host memory). All sets have the same dims. See bench.h; cuda_measure.cc has these three.
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                        int replays);
  StatusOr<std::vector<double>> MeasureTogether(std::span<const RunBindings> sets, int samples,
                                                int replays);
  StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<const RunBindings> sets, int samples);

 private:
  // Page-locked words of the host, written to by kernels.
  struct Reports {
    IndexError error;
    uint32_t has_ended = 0;
  };
  // What an executor has of the driver for all its life.
  struct Resources {
    CudaStream stream;
    CudaEvent done;  // recorded behind every run on a stream of the caller
    DeviceMemory workspace;
    PinnedMemory reports;
    CUdeviceptr reports_address = 0;  // for the GPU
  };
  // What a run launches, and where its host tensors lie in staging.
  struct ResolvedRun {
    StagingLayout layout;
    std::vector<Operation> operations;
  };

  CudaExecutor(CudaDevice& device, Resources resources);
  static StatusOr<Resources> Acquire(const CudaDevice& device);
  Reports& reports() const { return *static_cast<Reports*>(own_.reports.get()); }

  // Sets places_, key_ and signals_end_. A run that is awaited is waited for as soon as it is
  // launched.
  void MakeKey(const RunBindings& bindings, bool is_awaited);
  // The run for these, ready to launch.
  StatusOr<const PreparedRun*> Prepare(const RunBindings& bindings, bool is_awaited);
  StatusOr<ResolvedRun> Resolve(const RunBindings& bindings);
  Status Reserve(size_t arena_bytes, const StagingLayout& layout);
  StatusOr<std::vector<CUdeviceptr>> Locate(const RunBindings& bindings,
                                            const StagingLayout& layout) const;
  // Memory that no caller sees.
  std::vector<MemoryRange> OwnMemory() const;

  Status Start(const RunBindings& bindings, CUstream stream, bool is_awaited);
  Status EnqueueRun(const PreparedRun& prepared, const RunBindings& bindings, CUstream stream);
  Status Finish();  // here and below the context is current
  Status Wait();
  bool SeesEnd() const;
  Status CheckErrors();

  StatusOr<DeviceSets> CopyToDevice(std::span<const RunBindings> sets);
  StatusOr<std::vector<std::vector<Operation>>> ResolveAll(const DeviceSets& sets);

  CudaDevice& device_;
  const CudaContext& context_;
  const Resources own_;
  GrowingMemory<DeviceMemory> arena_{size_t{1} << 20};
  Staging staging_;
  GraphCache graphs_;
  WeightsSwitch::Member member_;

  // Of the run that begins.
  TensorPlaces places_;
  std::vector<uint64_t> key_;
  bool signals_end_ = false;

  // Of the runs that are enqueued and not yet waited for.
  bool running_ = false, running_signals_end_ = false;
  CUstream running_stream_ = nullptr;
  std::vector<int64_t> running_symbols_;
  Status delayed_error_;  // found when a later run had to wait for an earlier one
};

}  // namespace fusec::runtime
