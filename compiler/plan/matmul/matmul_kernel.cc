#include <algorithm>

#include "compiler/plan/matmul/matmul_kernels.h"

namespace fusec {

WeightLayout PanelLayout(Dtype dtype, const std::string& precision) {
  if (dtype != Dtype::kF32) return WeightLayout::kPanels;
  return IsSplit(dtype, precision) ? WeightLayout::kSplitTf32Panels : WeightLayout::kTf32Panels;
}

// As TileShape::kThreads and WarpgroupShape::kThreads, of which a group copies.
int MatMulKernel::block_size() const {
  constexpr int kGroup = 128, kGroupRows = 64;
  return kind == Kind::kWarpgroups ? kGroup * (tile.rows / kGroupRows + 1) : tile.threads();
}

// As TileShape::Memory and WarpgroupShape::Memory.
int MatMulKernel::shared_bytes(bool is_split) const {
  const int sums = tile.depth_warps * tile.rows * (tile.columns + 8) * 4;
  if (kind == Kind::kTile) {
    const int chunk = (tile.rows + tile.columns) * (tile.chunk_bytes + 16);
    return std::max(tile.stages * chunk, sums);
  }
  constexpr int kAlignment = 1024;  // of panels; the barriers behind them need no more
  const int chunk = (tile.rows + tile.columns * (is_split ? 2 : 1)) * tile.chunk_bytes;
  const int most = std::max(tile.stages * chunk, sums);
  return static_cast<int>(CeilDiv(most, kAlignment) + 1) * kAlignment;
}

std::string MatMulKernel::Suffix() const {
  const std::string extents = std::to_string(tile.rows) + "x" + std::to_string(tile.columns);
  switch (kind) {
    case Kind::kLibrary:
      return algorithm.empty() ? "" : "_algorithm_" + std::to_string(place);
    case Kind::kPlain:
      return "_plain";
    case Kind::kRows:
      return (in_groups ? "_rows_by_" : "_rows_") + std::to_string(most_rows);
    case Kind::kTile:
      return "_tile_" + extents;
    case Kind::kWarpgroups:
      return "_warpgroup_" + extents +
             (tile.cluster_blocks > 1 ? "_cluster_" + std::to_string(tile.cluster_blocks) : "");
  }
  return "";
}

}  // namespace fusec
