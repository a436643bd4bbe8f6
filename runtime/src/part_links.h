#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Connects the parts of a sharded program: it owns the memory through which they pass tensors, and
// orders their work. Each context has one. The last part is the home: the memory lies on its
// device, and the caller waits for it.
class PartLinks {
 public:
  virtual ~PartLinks() = default;
  // Returns memory of at least `bytes` bytes, aligned to 256. Earlier contents are lost, and no run
  // may be using them.
  virtual StatusOr<std::byte*> Reserve(size_t bytes) = 0;
  virtual bool on_device() const = 0;  // whether it is memory of a GPU
  virtual size_t device_bytes() const = 0;
  // Whether a part can access the memory of the home's GPU.
  virtual bool CanReadHome(size_t part) const = 0;
  // Begins a run: the work that parts enqueue afterwards on the streams of StreamOf waits for the
  // work that is on `stream` and for the previous run.
  virtual Status Begin(void* stream) = 0;
  // The stream on which a part enqueues its work in a run on `stream`.
  virtual void* StreamOf(size_t part, void* stream) const = 0;
  // Called when all parts but the last are enqueued: later work on `stream` waits for them.
  virtual Status Join(void* stream) = 0;
  // Called when the last part is enqueued, too.
  virtual Status End(void* stream) = 0;

  // The time of a run in microseconds, `samples` times, each the mean over `replays` consecutive
  // runs that use the bindings of `sets` in turn. On GPUs inputs and outputs are copied to the
  // home's memory before the measurement, and a time lies between two events on the home's GPU.
  // `start` enqueues a run of a set on a stream.
  using StartRun = std::function<Status(const RunBindings& bindings, void* stream)>;
  virtual StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples,
                                                int replays, void* stream,
                                                const StartRun& start) = 0;
};

// For parts that run one after another on the CPU.
std::unique_ptr<PartLinks> CreateCpuLinks();
// `ordinals`: the GPU of each part. `streams`: the stream of each part, on its GPU.
StatusOr<std::unique_ptr<PartLinks>> CreateCudaLinks(std::vector<int> ordinals,
                                                     std::vector<void*> streams);

}  // namespace fusec::runtime
