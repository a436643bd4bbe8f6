#pragma once

#include <cstdint>
#include <string>

#include "compiler/support/gpu.h"

namespace fusec {

struct Occupancy {
  int blocks = 0;       // blocks that a multiprocessor can run at once
  double fraction = 0;  // their share of the warps that a multiprocessor can hold
  std::string limit;    // what limits it: "threads", "registers", "shared memory" or "blocks"
};

// The theoretical occupancy of a kernel, by its block size, its registers per thread, and its
// static and dynamic shared memory per block.
Occupancy OccupancyOf(const Gpu& gpu, int threads, int registers, int64_t shared_bytes);

}  // namespace fusec
