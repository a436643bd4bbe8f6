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

// Runs a program's steps on a GPU: one CUDA graph per run, between copies of large host tensors. A
// run uses, in this order,
//   TensorPlaces  chooses how each input and output gets to the memory that kernels use
//   GraphCache    finds the graph for these dims, places and addresses; if there is none, the
//                 steps are resolved to operations (resolve_steps.h), and these become a graph
//   Staging       copies inputs before the launch, and outputs after it
//
// It owns these three, the arena, its own stream, and the page-locked words in which kernels report
// errors and the end of a run. It orders runs, so that none uses memory that an earlier one still
// needs. One thread uses it at a time. Errors of the data and of the device are returned when a run
// is waited for; after a device error that the CUDA context does not survive, every call fails.
//
// A thread that waits for a run polls a word in page-locked memory, which the last kernel of the
// graph writes (end_run): it sees the end earlier than the driver does. There is no such kernel if
// copies follow the graph, and in asynchronous runs.
//
// A run with recently used dims and addresses allocates no memory.
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

  // Measures the time of one run in microseconds, `samples` times, each the mean over `replays`
  // consecutive runs, which use the bindings of `sets` in turn. Inputs and outputs are in device
  // memory (copies, if a set has host memory). All sets have the same dims. See bench.h;
  // cuda_measure.cc defines these three functions.
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                        int replays);
  StatusOr<std::vector<double>> MeasureTogether(std::span<const RunBindings> sets, int samples,
                                                int replays);
  StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<const RunBindings> sets, int samples);

 private:
  // Words of page-locked host memory to which kernels write.
  struct Reports {
    IndexError error;
    uint32_t has_ended = 0;
  };
  // Resources of the driver that an executor owns as long as it exists.
  struct Resources {
    CudaStream stream;
    CudaEvent done;  // recorded after every run on a stream of the caller
    DeviceMemory workspace;
    PinnedMemory reports;
    CUdeviceptr reports_address = 0;  // address of `reports` on the GPU
  };
  // The operations of a run, and the places of its host tensors in the staging buffers.
  struct ResolvedRun {
    StagingLayout layout;
    std::vector<Operation> operations;
  };

  CudaExecutor(CudaDevice& device, Resources resources);
  static StatusOr<Resources> Acquire(const CudaDevice& device);
  Reports& reports() const { return *static_cast<Reports*>(own_.reports.get()); }

  // Sets places_, key_ and signals_end_. `is_awaited`: the host waits for the run right after its
  // launch.
  void MakeKey(const RunBindings& bindings, bool is_awaited);
  // The run for these bindings, ready to launch.
  StatusOr<const PreparedRun*> Prepare(const RunBindings& bindings, bool is_awaited);
  StatusOr<ResolvedRun> Resolve(const RunBindings& bindings);
  Status Reserve(size_t arena_bytes, const StagingLayout& layout);
  StatusOr<std::vector<CUdeviceptr>> Locate(const RunBindings& bindings,
                                            const StagingLayout& layout) const;
  // The memory of this executor that callers cannot access.
  std::vector<MemoryRange> OwnMemory() const;

  Status Start(const RunBindings& bindings, CUstream stream, bool is_awaited);
  Status EnqueueRun(const PreparedRun& prepared, const RunBindings& bindings, CUstream stream);
  Status Finish();  // for this and the following functions the context is current
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

  // State of the run that begins.
  TensorPlaces places_;
  std::vector<uint64_t> key_;
  bool signals_end_ = false;

  // State of the runs that are enqueued and were not waited for.
  bool running_ = false, running_signals_end_ = false;
  CUstream running_stream_ = nullptr;
  std::vector<int64_t> running_symbols_;
  Status delayed_error_;  // found when a later run had to wait for an earlier one
};

}  // namespace fusec::runtime
