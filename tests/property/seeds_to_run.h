#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace fusec {

// $FUSEC_PROPERTY_SEED (else 0) and what follows it: $FUSEC_PROPERTY_RUNS seeds, else `runs`, or one
// in $FUSEC_PROPERTY_SHARE of them.
inline std::vector<uint64_t> SeedsToRun(int runs) {
  const auto setting = [](const char* name, int64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoll(text) : otherwise;
  };
  const int64_t first = setting("FUSEC_PROPERTY_SEED", 0);
  const int64_t share = setting("FUSEC_PROPERTY_SHARE", 1);
  const int64_t count = setting("FUSEC_PROPERTY_RUNS", (runs + share - 1) / share);
  std::vector<uint64_t> seeds(static_cast<size_t>(count));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<uint64_t>(first) + i;
  return seeds;
}

}  // namespace fusec
