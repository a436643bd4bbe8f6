#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/gate.h"

namespace fusec::runtime {

// Orders the runs of all executors of a program and the switches of its weights, so that each run
// sees one set of weights: the copies of a switch wait on the GPU for every run enqueued before,
// and every run enqueued later waits for the copies. Only the few microseconds in which a switch is
// enqueued are threads kept from enqueuing.
class WeightsSwitch {
 public:
  explicit WeightsSwitch(const CudaContext& context) : context_(context) {}

  // An executor, while it lives. What it tells is read while no run is being enqueued.
  struct Member {
    CUstream own_stream = nullptr;
    CUevent done = nullptr;  // recorded behind its last run, if that was on another stream
    bool is_on_own_stream = true;
    uint64_t seen = 0;  // switches that its stream has waited for
  };
  void Join(Member& member);
  void Leave(Member& member);

  // Runs are enqueued while one of these lives.
  class Enqueuing {
   public:
    explicit Enqueuing(WeightsSwitch& owner) : inside_(owner.gate_) {}

   private:
    Gate::Inside inside_;
  };
  // Makes `stream` wait for the last switch, unless the member has waited for it.
  Status WaitForLast(Member& member, CUstream stream);

  // `enqueue` enqueues the copies on the stream it is given. Returns when they are done, after an
  // error when those are that were enqueued before it. By one thread at a time.
  Status Switch(const std::function<Status(CUstream)>& enqueue);
  // The same, but returns when they are enqueued; then Wait waits for them, and MakeWait makes a
  // stream wait.
  Status Enqueue(const std::function<Status(CUstream)>& enqueue);
  Status Wait() const;
  Status MakeWait(CUstream stream) const;

 private:
  Status EnqueueBehindRuns(const std::function<Status(CUstream)>& enqueue);

  const CudaContext& context_;
  CudaStream stream_;  // with the event, from the first switch on: most programs never have one
  CudaEvent switched_;
  std::atomic<uint64_t> switches_ = 0;
  Gate gate_;  // of threads that enqueue runs
  std::mutex mutex_;
  std::vector<Member*> members_;
};

}  // namespace fusec::runtime
