#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fusec {

// What one multiprocessor of a compute capability holds at once.
struct MultiprocessorLimits {
  int capability = 0;  // 90 for sm_90
  int threads = 0, blocks = 0;
  int64_t shared_bytes = 0;
};

// Of "sm_90a" and the like; nullopt for an architecture that the table lacks.
std::optional<MultiprocessorLimits> LimitsOf(const std::string& architecture);

struct Occupancy {
  int blocks = 0;       // that a multiprocessor runs at once
  double fraction = 0;  // of the warps it could hold
  std::string limit;  // what keeps it from more: "threads", "registers", "shared memory", "blocks"
};

// The theoretical occupancy of a kernel: how many of its blocks fit.
Occupancy OccupancyOf(const MultiprocessorLimits& limits, int threads, int registers,
                      int64_t shared_bytes);

}  // namespace fusec
