#include "runtime/src/cuda/copy_threads.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace fusec::runtime {

size_t CopyThreadsFor(size_t bytes) {
  // About what it takes to read the page cache as fast as PCIe 5 takes it.
  constexpr size_t kMostThreads = 8;
  // A thread for every 32 MiB: below that, starting it and locking its pages costs more than it
  // gains.
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<size_t>(bytes / (8 * kCopyPieceBytes), 1, std::min(cores, kMostThreads));
}

void InCopyThreads(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work, i);
  } catch (const std::system_error&) {  // the others do it all
  }
  work(0);
}

}  // namespace fusec::runtime
