#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/src/status.h"

namespace fusec::runtime {

// The value of FUSEC_NUM_THREADS, or else the number of threads of OpenMP (OMP_NUM_THREADS, or the
// cores that this process may use).
StatusOr<int> ThreadCountFromEnvironment();

// Marks the calling thread as running a program as long as the object exists. Threads that run
// programs at the same time share the cores: threads() is the share of this one.
class ThreadShare {
 public:
  explicit ThreadShare(int all_threads);
  ~ThreadShare();
  ThreadShare(const ThreadShare&) = delete;
  int threads() const { return threads_; }

 private:
  int threads_;
  int previous_openmp_threads_;
};

// The number of threads, in 1..limit, that a piece of work is worth: one per 32 KiB of traffic or
// 256 Ki flops, which take about as long as waking a thread (some microseconds).
int UsefulThreads(double bytes, double flops, int limit);

// Sets the number of threads that oneDNN uses when this thread calls it.
void SetOpenMpThreads(int threads);

namespace internal {
using RangeFunction = void (*)(const void* body, int64_t first, int64_t last);
void ParallelRanges(int threads, int64_t count, RangeFunction function, const void* body);
}  // namespace internal

// Splits [0, count) into at most `threads` consecutive ranges and calls body(first, last) for each,
// in parallel; one range runs in the calling thread.
template <class Body>
void ParallelFor(int threads, int64_t count, const Body& body) {
  if (count <= 0) return;
  if (threads <= 1 || count == 1) return body(int64_t{0}, count);
  internal::ParallelRanges(
      threads, count,
      [](const void* erased, int64_t first, int64_t last) {
        (*static_cast<const Body*>(erased))(first, last);
      },
      &body);
}

}  // namespace fusec::runtime
