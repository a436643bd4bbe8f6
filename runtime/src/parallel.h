#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/src/status.h"

namespace fusec::runtime {

// FUSEC_NUM_THREADS, or what OpenMP would use (OMP_NUM_THREADS, the cores that this process may
// use).
StatusOr<int> ThreadCountFromEnvironment();

// While it lives the calling thread is one of those that run a program. Threads that run at the
// same time share the cores.
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

// How many threads in 1..limit pay off: waking one costs some microseconds, about what 32 KB of
// traffic or 256 K flops take.
int UsefulThreads(double bytes, double flops, int limit);

// Sets what oneDNN will use when this thread calls it.
void SetOpenMpThreads(int threads);

namespace internal {
using RangeFunction = void (*)(const void* body, int64_t first, int64_t last);
void ParallelRanges(int threads, int64_t count, RangeFunction function, const void* body);
}  // namespace internal

// Calls body(first, last) for at most `threads` neighbouring ranges that make up 0..count; one
// range runs in the calling thread.
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
