#include <algorithm>
#include <bit>
#include <span>

#include "compiler/plan/matmul/matmul_ranges.h"

namespace fusec {

namespace {

using Kind = MatMulKernel::Kind;

// A tile, the rows from which on it is planned, and the columns. Each column of tiles makes the
// operand again, and few rows wait for the weights, which warpgroups keep up with. For split floats
// panels hold these twice, so that tiles by warps, which split them, are ahead for few rows
// (measured: tests/gpu/results/2026-11-24-h200-prologue.txt).
struct MakingTile {
  Kind kind;
  MatMulTile tile;
  int64_t from, least_columns;
};
constexpr MakingTile kMakingSplit[] = {
    {Kind::kTile, {16, 32, 512, 1, 1, 8, 3}, 5, 1},
    {Kind::kTile, {64, 32, 256, 2, 1, 4, 3}, 33, 1},
    {Kind::kTile, {16, 64, 256, 1, 2, 4, 3}, 5, kNarrowColumns + 1},
    {Kind::kTile, {32, 64, 256, 1, 2, 4, 3}, 17, kNarrowColumns + 1},
    {Kind::kWarpgroups, Warpgroups(64, 64, 4), 33, kNarrowColumns + 1},
    {Kind::kWarpgroups, Warpgroups(64, 128, 3), 33, 65},
    {Kind::kWarpgroups, Warpgroups(128, 128, 4), 65, 65},
};
constexpr MakingTile kMakingShort[] = {
    {Kind::kTile, {16, 32, 512, 1, 1, 8, 3}, 5, 1},
    {Kind::kWarpgroups, kSquareTile, 33, 1},
    {Kind::kWarpgroups, kSquareTile, 2, kNarrowColumns + 1},
    {Kind::kWarpgroups, kWideTile, 2, 65},
    {Kind::kWarpgroups, Warpgroups(128, 256, 4), 65, 129},
};
// Where there are no warpgroups.
constexpr MakingTile kMakingByWarps[] = {
    {Kind::kTile, {16, 32, 512, 1, 1, 8, 3}, 5, 1},
    {Kind::kTile, {64, 32, 256, 2, 1, 4, 3}, 33, 1},
    {Kind::kTile, {16, 64, 256, 1, 2, 4, 3}, 5, kNarrowColumns + 1},
    {Kind::kTile, {64, 128, 128, 2, 4, 1, 3}, 17, kNarrowColumns + 1},
};

constexpr int64_t kFewRows = 4;
// Terms of a column's sum that each warp has at least, of those that share it out.
constexpr int64_t kShareOfOneRow = 512, kShareOfFewRows = 256;

MatMulKernel Rows(int64_t most, int64_t terms, int64_t least_terms) {
  constexpr uint64_t kMostWarps = 4;
  MatMulKernel kernel;
  kernel.kind = Kind::kRows;
  kernel.most_rows = static_cast<int>(most);
  const uint64_t warps = std::bit_floor(static_cast<uint64_t>(terms / least_terms));
  kernel.warps_per_column = static_cast<int>(std::clamp<uint64_t>(warps, 1, kMostWarps));
  return kernel;
}

}  // namespace

std::vector<MatMulRange> KernelsThatMake(const MatMulPlan& matmul, const PlanOptions& options) {
  const int64_t n = *matmul.n.AsConstant(), k = *matmul.k.AsConstant();
  const int64_t matrices = *matmul.batch.AsConstant();
  const bool is_split = IsSplit(matmul.result->type.dtype, options.matmul_precision);
  std::span<const MakingTile> tiles = kMakingByWarps;
  if (TakesWarpgroups(matmul, options))
    tiles = is_split ? std::span<const MakingTile>(kMakingSplit) : kMakingShort;
  std::vector<MatMulRange> kernels = {{Rows(1, k, kShareOfOneRow), 0, 1}};
  const auto serves = [&](const MakingTile& tile) { return n >= tile.least_columns; };
  const bool few_have_tiles = std::any_of(tiles.begin(), tiles.end(), [&](const MakingTile& tile) {
    return serves(tile) && tile.from <= kFewRows;
  });
  if (!few_have_tiles) kernels.push_back({Rows(kFewRows, k, kShareOfFewRows), 2, kFewRows});
  for (const MakingTile& planned : tiles) {
    if (!serves(planned)) continue;
    MatMulKernel kernel;
    kernel.kind = planned.kind;
    kernel.tile = planned.tile;
    // Pairs of blocks share out the sums while all of them run at once.
    const int shared = kernel.shared_bytes(is_split);
    const int64_t blocks =
        2 * shared <= SharedBytesOf(options.architecture) ? 2 * kMostBlocks : kMostBlocks;
    const int64_t alone = RowsBeyond(blocks / 2, planned.tile, n, matrices);
    if (planned.kind == Kind::kWarpgroups && planned.from < alone) {
      kernel.tile.cluster_blocks = 2;
      AddTile(planned.kind, kernel.tile, planned.from, kernels);
      AddTile(planned.kind, planned.tile, alone, kernels);
    } else {
      AddTile(planned.kind, planned.tile, planned.from, kernels);
    }
  }
  return kernels;
}

}  // namespace fusec
