#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

namespace fusec {

// How many ranges ForRanges makes of `count` rows that have `elements` elements together: at most
// one per core, and none so short that it is not worth a thread.
inline int64_t RangeCount(int64_t count, int64_t elements) {
  constexpr int64_t kLeastElements = 1 << 18;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<int64_t>(std::min(elements / kLeastElements, count), 1, cores);
}

// Calls body(first, last, range) for consecutive ranges of rows, which are numbered from 0, in
// parallel, and waits for all of them.
template <class Body>
void ForRanges(int64_t count, int64_t elements, const Body& body) {
  const int64_t ranges = RangeCount(count, elements);
  std::vector<std::future<void>> others;
  for (int64_t i = 1; i < ranges; ++i) {
    others.push_back(std::async(std::launch::async, [&body, count, ranges, i] {
      body(count * i / ranges, count * (i + 1) / ranges, i);
    }));
  }
  body(int64_t{0}, count / ranges, int64_t{0});
  for (std::future<void>& other : others) other.get();
}

}  // namespace fusec
