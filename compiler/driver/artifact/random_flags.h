#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// Flags of random data, which run, verify, bench and rebuild share.
struct RandomFlags {
  uint64_t seed = 0;
  std::string ids = "uniform";  // or "zipf": id i is about 1 / (i + 1) times as frequent as id 0
  bool masks = false;           // integers that index no table are 0 or 1 instead of 0 to 1000
};

}  // namespace fusec
