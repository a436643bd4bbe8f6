#pragma once

#include <cstdint>

namespace fusec {

// The numbers of a generated kernel that change its speed and never its answers. What is 0 or
// kPlanned is left to the planner of the kernel; a planner may come out below what is asked for,
// where a region's sizes allow no more.
struct LaunchShape {
  enum class Team { kPlanned, kThread, kWarp, kBlock };

  int block_size = 0;          // threads of a block, on a GPU
  int64_t lanes = 0;           // neighbouring elements that a thread makes, at most
  int64_t rows = 0;            // that a block owns, at least, where blocks own rows
  int64_t chunk = 0;           // elements that a block owns, on the CPU
  int cluster_blocks = 0;      // blocks that share out sums, on a GPU with clusters
  Team team = Team::kPlanned;  // who reduces a row, on a GPU

  bool operator==(const LaunchShape&) const = default;
};

}  // namespace fusec
