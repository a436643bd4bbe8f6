#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// What lies between the parts of a sharded program: memory in which they hand tensors over, and the
// order of their work. One per context; the last part is the one that the caller waits for, the
// home of the memory.
class PartLinks {
 public:
  virtual ~PartLinks() = default;
  // At least so many bytes, which start at a multiple of 256. What was there is lost, and nothing
  // may be using it.
  virtual StatusOr<std::byte*> Reserve(size_t bytes) = 0;
  virtual bool on_device() const = 0;  // whether that is memory of a GPU
  virtual size_t device_bytes() const = 0;
  // Whether a part can read what lies in the memory of the home's GPU.
  virtual bool CanReadHome(size_t part) const = 0;
  // A run begins: what parts enqueue on the streams that StreamOf gives comes behind what is on
  // `stream` now, and behind the run before.
  virtual Status Begin(void* stream) = 0;
  // Of a part, for a run on `stream`.
  virtual void* StreamOf(size_t part, void* stream) const = 0;
  // All parts but the last are enqueued: what comes on `stream` waits for them.
  virtual Status Join(void* stream) = 0;
  // The last part is enqueued, too.
  virtual Status End(void* stream) = 0;

  // Microseconds of a run, `samples` times, each the mean over `replays` runs back to back that go
  // round `sets`. On GPUs inputs and outputs are copied to the home's memory before, and a time is
  // between two events there, behind `start` of a set and its stream.
  using StartRun = std::function<Status(const RunBindings& bindings, void* stream)>;
  virtual StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                                int replays, void* stream,
                                                const StartRun& start) = 0;
};

// Parts that run one behind the other on the CPU.
std::unique_ptr<PartLinks> CreateCpuLinks();
// `ordinals`: of the parts' GPUs. `streams`: of the parts, each on its GPU.
StatusOr<std::unique_ptr<PartLinks>> CreateCudaLinks(std::vector<int> ordinals,
                                                     std::vector<void*> streams);

}  // namespace fusec::runtime
