#pragma once

#include <cstdint>

namespace fusec {

// Parameters of a generated kernel that change its speed but never its results. The planner of the
// kernel chooses those that are 0 or kPlanned. It may use less than requested if the sizes of the
// region do not allow more.
struct LaunchShape {
  enum class Team { kPlanned, kThread, kWarp, kBlock };

  int block_size = 0;          // threads per block, on a GPU
  int64_t lanes = 0;           // the most consecutive elements that a thread computes
  int64_t rows = 0;            // the fewest rows per block, if blocks compute rows
  int64_t chunk = 0;           // elements per block, on the CPU
  int cluster_blocks = 0;      // blocks that split sums, on a GPU with clusters
  int key_warps = 0;           // warps that share the keys of a query, in attention on a GPU
  bool finds_updates = false;  // blocks find the updates of their rows (region/found_sum.h)
  Team team = Team::kPlanned;  // who reduces a row, on a GPU

  bool operator==(const LaunchShape&) const = default;
};

}  // namespace fusec
