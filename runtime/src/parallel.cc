#include "runtime/src/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>

// libgomp synchronizes with futexes, which ThreadSanitizer does not see; these calls tell it which
// accesses are ordered by the start and the end of a parallel region.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#define FUSEC_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define FUSEC_TSAN_RELEASE(address) __tsan_release(address)
#define FUSEC_NO_TSAN __attribute__((no_sanitize("thread"), noinline))
#else
#define FUSEC_TSAN_ACQUIRE(address)
#define FUSEC_TSAN_RELEASE(address)
#define FUSEC_NO_TSAN
#endif

namespace fusec::runtime {
namespace {

std::atomic<int> running{0};  // ThreadShares alive in this process

}  // namespace

StatusOr<int> ThreadCountFromEnvironment() {
  const char* text = std::getenv("FUSEC_NUM_THREADS");
  if (!text || !*text) return std::max(omp_get_max_threads(), 1);
  int threads = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, threads);
  if (code == std::errc() && stop == end && threads >= 1 && threads <= 4096) return threads;
  return Fail(FUSEC_BAD_USAGE, "FUSEC_NUM_THREADS is \"", text, "\", expected 1..4096");
}

ThreadShare::ThreadShare(int all_threads)
    : threads_(std::max(all_threads / (running.fetch_add(1) + 1), 1)),
      previous_openmp_threads_(omp_get_max_threads()) {}

ThreadShare::~ThreadShare() {
  omp_set_num_threads(previous_openmp_threads_);
  running.fetch_sub(1);
}

int UsefulThreads(double bytes, double flops, int limit) {
  const double pieces = bytes / 32768 + flops / 262144;
  return pieces >= limit ? limit : std::max(static_cast<int>(pieces), 1);
}

void SetOpenMpThreads(int threads) { omp_set_num_threads(threads); }

namespace internal {

FUSEC_NO_TSAN void ParallelRanges(int threads, int64_t count, RangeFunction function,
                                  const void* body) {
  const int wanted = static_cast<int>(std::min<int64_t>(threads, count));
  char start = 0, join = 0;
  (void)start, (void)join;
  FUSEC_TSAN_RELEASE(&start);
#pragma omp parallel num_threads(wanted)
  {
    FUSEC_TSAN_ACQUIRE(&start);
    // OpenMP may give fewer threads than wanted.
    const int64_t parts = omp_get_num_threads();
    const int64_t part = omp_get_thread_num();
    const int64_t size = count / parts, larger = count % parts;
    const int64_t first = part * size + std::min(part, larger);
    function(body, first, first + size + (part < larger));
    FUSEC_TSAN_RELEASE(&join);
  }
  FUSEC_TSAN_ACQUIRE(&join);
}

}  // namespace internal
}  // namespace fusec::runtime
