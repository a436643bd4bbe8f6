#include "runtime/src/cuda/copy_threads.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace fusec::runtime {

size_t CopyThreadsFor(size_t bytes) {
  // About the number of threads that read the page cache as fast as PCIe 5 can transfer.
  constexpr size_t kMostThreads = 8;
  // One thread for every 32 MiB: for fewer bytes, starting a thread and locking its pages costs
  // more than it saves.
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<size_t>(bytes / (8 * kCopyPieceBytes), 1, std::min(cores, kMostThreads));
}

void InCopyThreads(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work, i);
  } catch (const std::system_error&) {  // the other threads do all the work
  }
  work(0);
}

}  // namespace fusec::runtime
