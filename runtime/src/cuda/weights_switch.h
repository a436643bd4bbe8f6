#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/gate.h"

namespace fusec::runtime {

// Orders the runs of all executors of a program and the switches to new weights, so that each run
// sees one set of weights: the copies of a switch wait on the GPU for every run enqueued before,
// and every run enqueued later waits for the copies. Threads cannot enqueue runs only during the
// few microseconds in which a switch is enqueued.
class WeightsSwitch {
 public:
  explicit WeightsSwitch(const CudaContext& context) : context_(context) {}

  // The state of an executor, from Join to Leave. A switch reads it while no run is being enqueued.
  struct Member {
    CUstream own_stream = nullptr;
    CUevent done = nullptr;  // recorded after its last run, if that was on another stream
    bool is_on_own_stream = true;
    uint64_t seen = 0;  // the number of switches that its stream has waited for
  };
  void Join(Member& member);
  void Leave(Member& member);

  // A thread holds one of these while it enqueues a run.
  class Enqueuing {
   public:
    explicit Enqueuing(WeightsSwitch& owner) : inside_(owner.gate_) {}

   private:
    Gate::Inside inside_;
  };
  // Makes `stream` wait for the last switch, unless the member has waited for it.
  Status WaitForLast(Member& member, CUstream stream);

  // Calls `enqueue`, which enqueues the copies on the stream that it gets, and returns when they
  // are done; after an error of `enqueue`, when the copies enqueued before it are done. Called by
  // one thread at a time.
  Status Switch(const std::function<Status(CUstream)>& enqueue);
  // The same, but returns when the copies are enqueued; Wait then waits for them, and MakeWait
  // makes a stream wait for them.
  Status Enqueue(const std::function<Status(CUstream)>& enqueue);
  Status Wait() const;
  Status MakeWait(CUstream stream) const;

 private:
  Status EnqueueBehindRuns(const std::function<Status(CUstream)>& enqueue);

  const CudaContext& context_;
  CudaStream stream_;  // created with the event by the first switch, which most programs never have
  CudaEvent switched_;
  std::atomic<uint64_t> switches_ = 0;
  Gate gate_;  // threads that enqueue runs are inside
  std::mutex mutex_;
  std::vector<Member*> members_;
};

}  // namespace fusec::runtime
