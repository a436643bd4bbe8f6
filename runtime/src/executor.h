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

// Where each arena buffer lies for the bound dims. Buffers whose lives do not overlap share memory.
struct ArenaPlan {
  std::vector<int64_t> offsets;  // by buffer: a multiple of 256, or -1 if it is not in the arena
  int64_t bytes = 0;
};

// All that a run depends on; the context has checked it. The spans live until Run or RunAsync
// returns.
struct RunBindings {
  std::span<const int64_t> symbols;  // one value per Manifest::symbols
  // Changes whenever `symbols` do, and never repeats within a context: what an executor derived
  // from the symbols holds while this number stays the same.
  uint64_t dims_version = 0;
  std::span<const int64_t> buffer_bytes;  // by buffer
  const ArenaPlan* arena = nullptr;
  std::span<const TensorBinding> inputs, outputs;  // in the order of the manifest
};

// Microseconds of one step, by its number in the target's list of steps.
struct StepTimes {
  size_t step = 0;
  std::vector<double> us;
};

// Runs the steps of one target; one per context, used by one thread at a time. It owns the arena's
// memory. A run may follow an asynchronous one without Synchronize: the executor keeps their order.
// Its destructor waits for what is still running.
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
  // Waits for what is running; Synchronize reports its error.
  virtual void FinishEarlier() = 0;
  // Microseconds that each of `count` runs took on the device, without copying inputs and outputs
  // where that can be left out.
  virtual StatusOr<std::vector<double>> MeasureRuns(const RunBindings& bindings, int count) = 0;
  virtual void* stream() const = 0;          // a CUstream of its own; null on the CPU
  virtual size_t scratch_bytes() const = 0;  // of the device's memory that it holds
};

// Per-program state: loaded kernels and weights. Its methods may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;  // "cpu (x86-64-v4)", "cuda:0 NVIDIA H200"
  virtual const Target& target() const = 0;     // the target of the manifest that it runs
  virtual bool has_device_memory() const = 0;   // whether bindings may be `on_device`
  virtual size_t weight_bytes() const = 0;      // of device memory, without tables on the host
  virtual StatusOr<std::unique_ptr<Executor>> NewExecutor() = 0;
  // Puts the constants of `weights`, an artifact of the same program, in the place of those it has.
  // Every run sees all of the old ones or all of the new ones; after an error, the old ones. By one
  // thread at a time.
  // `kept` parts of constants stay as they are.
  virtual Status UpdateWeights(std::unique_ptr<Artifact> weights,
                               std::span<const ConstantPart> kept) = 0;
  // Writes to parts of constants, `contents` to each in turn, likewise.
  virtual Status WriteConstants(std::span<const ConstantPart> parts,
                                std::span<const std::vector<std::byte>> contents) = 0;
  // Puts rows into a table. A run sees each of its rows either old or new, and runs that are
  // enqueued when it returns see the new ones. After an error of the data nothing was written. By
  // one thread at a time, and not beside UpdateWeights.
  virtual Status UpdateRows(const RowUpdate& update) = 0;
  // Loads rows of a table into the cache that it has, if it has one: those of the ids that come
  // most often, of which all are good.
  virtual Status WarmTable(const Table&, const void* /*ids*/, fusec_dtype, int64_t /*count*/) {
    return {};
  }
  virtual StatusOr<fusec_cache_info> TableCache(const Table&) { return fusec_cache_info{}; }
  // Host memory for inputs and outputs (page-locked on a GPU), at a multiple of 64 bytes. Never
  // null, even for 0 bytes.
  virtual StatusOr<void*> AllocateHost(size_t bytes) = 0;
  virtual void FreeHost(void* memory) = 0;  // null is allowed
};

// The artifact must outlive the device, the device its executors. On the CPU its constants are used
// in place, and updates of rows write to them. FUSEC_NO_DEVICE where the machine
// cannot run it.
StatusOr<std::unique_ptr<Device>> CreateCpuDevice(Artifact& artifact);
// `ordinal` is the N of "cuda:N". Where the artifact has no target for that GPU's architecture, the
// .cu files of a GPU target of it are compiled anew.
StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const Artifact& artifact, int ordinal);
// What CreateCpuDevice and CreateCudaDevice would find missing on this machine; they read no
// weights for it, and neither must have the artifact.
Status CheckCpuDevice(Artifact& artifact);
Status CheckCudaDevice(const Artifact& artifact, int ordinal);
// Whether CreateCudaDevice(artifact, 0) is worth trying: the artifact has a GPU target, and a
// driver shows a GPU.
bool CudaUsable(const Artifact& artifact);

}  // namespace fusec::runtime
