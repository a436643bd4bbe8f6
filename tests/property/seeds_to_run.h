#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace fusec {

// A number of the environment.
inline int64_t NumberOf(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoll(text) : otherwise;
}

// One in how many cases of a long test is run: $FUSEC_PROPERTY_SHARE.
inline int64_t ShareToRun() { return std::max<int64_t>(NumberOf("FUSEC_PROPERTY_SHARE", 1), 1); }

// $FUSEC_PROPERTY_SEED (else 0) and what follows it: $FUSEC_PROPERTY_RUNS seeds, else `runs`, or the
// share of them that is to be run.
inline std::vector<uint64_t> SeedsToRun(int runs) {
  const int64_t first = NumberOf("FUSEC_PROPERTY_SEED", 0), share = ShareToRun();
  const int64_t count = NumberOf("FUSEC_PROPERTY_RUNS", (runs + share - 1) / share);
  std::vector<uint64_t> seeds(static_cast<size_t>(count));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<uint64_t>(first) + i;
  return seeds;
}

}  // namespace fusec
