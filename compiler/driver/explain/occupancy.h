#pragma once

#include <cstdint>
#include <string>

#include "compiler/support/gpu.h"

namespace fusec {

struct Occupancy {
  int blocks = 0;       // that a multiprocessor runs at once
  double fraction = 0;  // of the warps it could hold
  std::string limit;  // what keeps it from more: "threads", "registers", "shared memory", "blocks"
};

// The theoretical occupancy of a kernel: how many of its blocks fit.
Occupancy OccupancyOf(const Gpu& gpu, int threads, int registers, int64_t shared_bytes);

}  // namespace fusec
