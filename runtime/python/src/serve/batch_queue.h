// The queue of a model's waiting requests, from which its lanes take batches.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace fusec::python {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A request that waits for a batch or runs in one.
class Waiting {
 public:
  Waiting(int64_t key, int64_t rows, std::vector<int64_t> sizes)
      : key(key), rows(rows), sizes(std::move(sizes)) {}
  virtual ~Waiting() = default;

  // Returns true for the caller that may answer the request; false if it was answered or
  // cancelled already.
  bool End() { return !is_done_.exchange(true); }
  bool is_done() const { return is_done_.load(); }

  const int64_t key;                 // requests with equal keys may share a run
  const int64_t rows;                // by which batches are limited
  const std::vector<int64_t> sizes;  // of the dims that BatchLimits::sizes limits
  const Clock::time_point since = Clock::now();

 private:
  std::atomic<bool> is_done_ = false;
};

using Batch = std::vector<std::shared_ptr<Waiting>>;

struct BatchLimits {
  int64_t rows;                // the most rows of a batch; a larger request runs alone
  std::vector<int64_t> sizes;  // upper bounds of joined dims
  Clock::duration delay;       // how long the first request of a batch waits for others
  size_t waiting;              // the most waiting requests
  bool can_join;               // whether requests may share runs at all
  // Whether lanes that wait for a batch share many requests, instead of one lane taking all. On a
  // CPU, each lane has a core.
  bool shares;
};

// Tracks how many requests waited or ran at the same time recently. If each client waits for its
// answer before it sends the next request, and there are as many requests as recently, then all
// clients have sent theirs, and the next batch need not be delayed. A small number of requests
// allows no such conclusion.
class Crowd {
 public:
  explicit Crowd(Clock::duration lately) : lately_(lately) {}
  // Records the number of requests that wait or run, and returns whether these are all that can be
  // expected.
  bool IsAll(size_t present, Clock::time_point now);

 private:
  const Clock::duration lately_;
  Clock::time_point end_{};
  size_t most_ = 0, most_before_ = 0;
};

// The methods may be called by any thread. They take locks, so that nothing in the queue may need
// Python's.
class BatchQueue : public std::enable_shared_from_this<BatchQueue> {
 public:
  // `lately` is the time in which the largest number of requests at the same time is remembered.
  BatchQueue(BatchLimits limits, Clock::duration lately)
      : limits_(std::move(limits)), crowd_(lately) {}

  // Returns whether there was room for the request; there is none in a closed queue.
  bool Push(std::shared_ptr<Waiting> waiting);
  // Waits for the next batch. It is empty if the queue is closed and no request is left.
  Batch Take();
  // The requests of a batch no longer run.
  void Finish(size_t requests);
  // Refuses new requests. Those that wait no longer wait for others.
  void Close();

  bool is_closed() const;
  size_t waiting() const;

 private:
  void DropEnded();
  bool IsDue(Clock::time_point now);
  Batch TakeBatch();
  size_t Share() const;
  bool Fits(const Waiting& waiting, std::vector<int64_t>& sizes) const;

  const BatchLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable has_changed_;
  std::deque<std::shared_ptr<Waiting>> queue_;
  int64_t queued_rows_ = 0;
  size_t running_ = 0;     // requests in batches
  size_t idle_lanes_ = 0;  // that are in Take
  Crowd crowd_;
  bool is_closed_ = false;
};

}  // namespace fusec::python
