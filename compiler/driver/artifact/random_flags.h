#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// Flags of random data; shared by run, verify and bench.
struct RandomFlags {
  uint64_t seed = 0;
  std::string ids = "uniform";  // or "zipf": id i about 1 / (i + 1) as frequent as id 0
  bool masks = false;           // integers that reach no table are 0 or 1, not 0 to 1000
};

}  // namespace fusec
