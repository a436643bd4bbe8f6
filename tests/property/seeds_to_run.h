#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace fusec {

// The number in an environment variable, or `otherwise`.
inline int64_t NumberOf(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoll(text) : otherwise;
}

// A long test runs one in this many of its cases: $FUSEC_PROPERTY_SHARE.
inline int64_t ShareToRun() { return std::max<int64_t>(NumberOf("FUSEC_PROPERTY_SHARE", 1), 1); }

// Consecutive seeds from $FUSEC_PROPERTY_SEED (default 0) on: $FUSEC_PROPERTY_RUNS seeds, or by default the share of `runs` that is to be
// run.
inline std::vector<uint64_t> SeedsToRun(int runs) {
  const int64_t first = NumberOf("FUSEC_PROPERTY_SEED", 0), share = ShareToRun();
  const int64_t count = NumberOf("FUSEC_PROPERTY_RUNS", (runs + share - 1) / share);
  std::vector<uint64_t> seeds(static_cast<size_t>(count));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<uint64_t>(first) + i;
  return seeds;
}

}  // namespace fusec
