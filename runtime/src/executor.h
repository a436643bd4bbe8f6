#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/adapters.h"
#include "runtime/src/row_update.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

class Artifact;
struct Target;

// Memory given for an input or output of the program.
struct TensorBinding {
  void* data = nullptr;    // may be null if bytes is 0
  size_t bytes = 0;        // exactly the size of the tensor for the bound dims
  bool on_device = false;  // memory of the program's GPU
};

// The offset of each arena buffer for the bound dims. Buffers whose lifetimes do not overlap may
// share memory.
struct ArenaPlan {
  std::vector<int64_t> offsets;  // by buffer: a multiple of 256 bytes, -1 if not in the arena
  int64_t bytes = 0;
};

// The arguments of a run, which the context has checked. The spans are valid until Run or RunAsync
// returns.
struct RunBindings {
  std::span<const int64_t> symbols;  // one value per Manifest::symbols
  // Changes whenever `symbols` change, and never repeats within a context: values that an executor
  // derived from the symbols stay valid while this number is the same.
  uint64_t dims_version = 0;
  std::span<const int64_t> buffer_bytes;  // by buffer
  const ArenaPlan* arena = nullptr;
  std::span<const TensorBinding> inputs, outputs;  // in the order of the manifest
};

// Measured times of one step in microseconds; `step` is its index in the target's list of steps.
struct StepTimes {
  size_t step = 0;
  std::vector<double> us;
};

// Runs the steps of one target. Each context has one executor, which one thread uses at a time and
// which owns the memory of the arena. A run may follow an asynchronous one without Synchronize: the
// executor keeps their order. The destructor waits for runs that have not finished.
class Executor {
 public:
  virtual ~Executor() = default;
  // Returns when the outputs are written. An index out of range is a FUSEC_BAD_INPUT error (see
  // index_error.h).
  virtual Status Run(const RunBindings& bindings) = 0;
  // Enqueues on `stream` (a CUstream); the bound memory must stay valid until Synchronize, which
  // reports errors of the data. Pageable inputs have been read when it returns.
  virtual Status RunAsync(const RunBindings& bindings, void* stream) = 0;
  virtual Status Synchronize() = 0;
  // Waits for runs that have not finished; Synchronize reports their error.
  virtual void FinishEarlier() = 0;
  // The device time of each of `count` runs in microseconds, without the copies of inputs and
  // outputs if they can be left out.
  virtual StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) = 0;
  virtual void* stream() const = 0;          // the executor's own CUstream; null on the CPU
  virtual size_t scratch_bytes() const = 0;  // bytes of the device's memory that it holds
};

// Per-program state: loaded kernels and weights. Its methods may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;  // "cpu (x86-64-v4)", "cuda:0 NVIDIA H200"
  virtual const Target& target() const = 0;     // the manifest's target that the device runs
  virtual bool has_device_memory() const = 0;   // whether bindings may be `on_device`
  virtual size_t weight_bytes() const = 0;      // device memory, without tables in host memory
  virtual StatusOr<std::unique_ptr<Executor>> NewExecutor() = 0;
  // Replaces the constants by those of `weights`, an artifact of the same program, except the parts
  // in `kept`, which are not changed. Every run sees either all of the old constants or all of the
  // new ones; after an error the old ones stay. Called by one thread at a time.
  virtual Status UpdateWeights(std::unique_ptr<Artifact> weights,
                               std::span<const ConstantPart> kept) = 0;
  // Writes contents[i] to parts[i] for all i, under the same rules.
  virtual Status WriteConstants(std::span<const ConstantPart> parts,
                                std::span<const std::vector<std::byte>> contents) = 0;
  // Overwrites rows of a table. A run sees each row either old or new, and runs that are enqueued
  // after the return see the new ones. If the data are invalid, nothing is written. Called by one
  // thread at a time, and never concurrently with UpdateWeights.
  virtual Status UpdateRows(const RowUpdate& update) = 0;
  // Loads the rows that occur most often among the ids into the table's cache, if it has one. All
  // ids are in range.
  virtual Status WarmTable(const Table&, const void* /*ids*/, fusec_dtype, int64_t /*count*/) {
    return {};
  }
  virtual StatusOr<fusec_cache_info> TableCache(const Table&) { return fusec_cache_info{}; }
  // Allocates host memory for inputs and outputs, aligned to 64 bytes and page-locked on a GPU. The
  // result is never null, even for 0 bytes.
  virtual StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual void FreeHost(void* memory) = 0;  // null is allowed
};

// The artifact must outlive the device, and the device its executors. The CPU device uses the
// artifact's constants in place, and updates of rows write to them. FUSEC_NO_DEVICE: the machine
// cannot run the artifact.
StatusOr<std::unique_ptr<Device>> CreateCpuDevice(Artifact& artifact);
// `ordinal` is the N of "cuda:N". If the artifact has no target for that GPU's architecture, the
// .cu files of another GPU target are compiled by NVRTC.
StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const Artifact& artifact, int ordinal);
// The errors that CreateCpuDevice and CreateCudaDevice would return on this machine. No weights are
// read, so the artifact may have been opened without them.
Status CheckCpuDevice(Artifact& artifact);
Status CheckCudaDevice(const Artifact& artifact, int ordinal);
// Whether the artifact has a GPU target and the driver finds a GPU.
bool CudaUsable(const Artifact& artifact);

}  // namespace fusec::runtime
