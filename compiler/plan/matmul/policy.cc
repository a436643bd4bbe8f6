#include "compiler/plan/matmul/policy.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace fusec {

namespace {

using schedule::Tile;
using schedule::Warpgroup;

constexpr Tile ByWarps(int rows, int columns, int chunk_bytes, int row_warps, int column_warps,
                       int depth_warps, int stages) {
  return {{rows, columns, stages, {.warps = depth_warps}}, chunk_bytes, row_warps, column_warps};
}
constexpr Warpgroup ByWarpgroups(int rows, int columns, int stages) {
  return {{rows, columns, stages, {}}};
}

// rows, columns, chunk bytes, warps (along rows, along columns, along the depth), stages
constexpr Tile kTiles[] = {
    ByWarps(16, 32, 256, 1, 1, 8, 4),   ByWarps(16, 64, 256, 1, 2, 4, 3),
    ByWarps(32, 32, 256, 2, 1, 4, 3),   ByWarps(64, 32, 256, 2, 1, 4, 3),
    ByWarps(64, 64, 128, 2, 2, 2, 3),   ByWarps(64, 64, 128, 4, 2, 1, 4),
    ByWarps(64, 128, 128, 2, 4, 1, 3),  ByWarps(128, 64, 128, 4, 2, 1, 4),
    ByWarps(128, 128, 128, 4, 2, 1, 3), ByWarps(16, 32, 512, 1, 1, 8, 3),
    ByWarps(32, 64, 256, 1, 2, 4, 3),   ByWarps(128, 64, 128, 4, 2, 1, 3),
};
// rows, columns, stages. With split floats, a thread holds the sums twice, and stages are twice as
// large.
constexpr Warpgroup kSplitWarpgroups[] = {
    ByWarpgroups(64, 64, 3),  ByWarpgroups(64, 128, 3),  ByWarpgroups(64, 128, 4),
    ByWarpgroups(128, 64, 4), ByWarpgroups(128, 128, 3),
};
constexpr Warpgroup kShortWarpgroups[] = {
    ByWarpgroups(64, 64, 4),   ByWarpgroups(64, 128, 4),  ByWarpgroups(64, 256, 4),
    ByWarpgroups(128, 64, 4),  ByWarpgroups(128, 128, 3), ByWarpgroups(128, 128, 6),
    ByWarpgroups(128, 256, 4),
};

// With E4M3, a thread also holds the sums of a chunk.
constexpr Warpgroup kFloat8Warpgroups[] = {
    ByWarpgroups(64, 64, 4),   ByWarpgroups(64, 64, 6),   ByWarpgroups(64, 128, 4),
    ByWarpgroups(128, 128, 4), ByWarpgroups(128, 128, 6), ByWarpgroups(128, 192, 4),
};

constexpr Warpgroup kShortFloat8Warpgroups[] = {
    ByWarpgroups(64, 64, 4),   ByWarpgroups(64, 64, 6),   ByWarpgroups(64, 128, 4),
    ByWarpgroups(128, 128, 3), ByWarpgroups(128, 128, 6), ByWarpgroups(128, 256, 4),
};

// Finds tiles in the lists above, so that each planned tile is one that tuning measures.
consteval Tile Warps(int rows, int columns, int chunk_bytes, int stages) {
  for (const Tile& tile : kTiles) {
    if (tile.rows == rows && tile.columns == columns && tile.chunk_bytes == chunk_bytes &&
        tile.stages == stages)
      return tile;
  }
  throw "kTiles has no such tile";
}
consteval Warpgroup Find(std::span<const Warpgroup> tiles, int rows, int columns, int stages) {
  for (const Warpgroup& tile : tiles) {
    if (tile == ByWarpgroups(rows, columns, stages)) return tile;
  }
  throw "the list has no such tile";
}
consteval Warpgroup Split(int rows, int columns, int stages) {
  return Find(kSplitWarpgroups, rows, columns, stages);
}
consteval Warpgroup Float8(int rows, int columns, int stages) {
  return Find(kFloat8Warpgroups, rows, columns, stages);
}
consteval Warpgroup ShortFloat8(int rows, int columns, int stages) {
  return Find(kShortFloat8Warpgroups, rows, columns, stages);
}
consteval Warpgroup Short(int rows, int columns, int stages) {
  return Find(kShortWarpgroups, rows, columns, stages);
}

constexpr int64_t kAny = INT64_MAX, kWide = kNarrowColumns + 1;

constexpr Tile kShortSums = Warps(16, 32, 256, 4), kTinySums = Warps(64, 64, 128, 3);

// Products that read both operands. A tile that is half empty is slower than the one before it.
//
//   tile                   columns: least, most
constexpr Planned<Tile> kReadByWarps[] = {
    {Warps(16, 32, 512, 3), 1, kAny},
    {Warps(64, 32, 256, 3), 1, kNarrowColumns},
    {Warps(32, 64, 256, 3), kWide, kAny},
    {Warps(128, 64, 128, 3), kWide, kAny},
};
constexpr Planned<Warpgroup> kReadSplit[] = {
    {Split(64, 64, 3), 1, kAny},
    {Split(64, 128, 4), 512, kAny},
    {Split(128, 128, 3), 65, kAny},
};
constexpr Planned<Warpgroup> kReadTf32[] = {
    {Short(64, 64, 4), 1, kAny},
    {Short(64, 128, 4), 1, kAny},
    {Short(128, 256, 4), 129, kAny},
};
constexpr Planned<Warpgroup> kReadHalf[] = {
    {Short(64, 64, 4), 1, kAny},
    {Short(64, 128, 4), 1, kAny},
    {Short(128, 128, 3), 65, kAny},
};
constexpr Warpgroup kLongHalf = Short(128, 256, 4);

constexpr Planned<Warpgroup> kReadFloat8[] = {
    {Float8(64, 64, 6), 1, kAny},
    {Float8(64, 128, 4), 65, kAny},
    {Float8(128, 128, 6), 65, kAny},
    {Float8(128, 192, 4), 129, kAny},
};

constexpr Planned<Warpgroup> kReadShortFloat8[] = {
    {ShortFloat8(64, 64, 4), 1, kAny},
    {ShortFloat8(64, 128, 4), 65, kAny},
    {ShortFloat8(128, 128, 3), 65, kAny},
};

// Products whose kernel computes the left operand. Each column of tiles computes it again. With few
// rows, a kernel is limited by reading the weights, and warpgroups keep up with that. The panels of
// split floats hold each weight twice, so that warp tiles, which split weights themselves, are
// faster for few rows.
//
//   tile                   columns: least, most; from row
constexpr Planned<Tile> kMakeByWarps[] = {
    {Warps(16, 32, 512, 3), 1, kAny, 5},
    {Warps(64, 32, 256, 3), 1, kAny, 33},
    {Warps(16, 64, 256, 3), kWide, kAny, 5},
    {Warps(64, 128, 128, 3), kWide, kAny, 17},
};
constexpr Planned<Tile> kMakeSplitByWarps[] = {
    {Warps(16, 32, 512, 3), 1, kAny, 5},
    {Warps(64, 32, 256, 3), 1, kAny, 33},
    {Warps(16, 64, 256, 3), kWide, kAny, 5},
    {Warps(32, 64, 256, 3), kWide, kAny, 17},
};
constexpr Planned<Warpgroup> kMakeSplit[] = {
    {Split(64, 64, 3), kWide, kAny, 33},
    {Split(64, 128, 3), 65, kAny, 33},
    {Split(128, 128, 3), 65, kAny, 65},
};
constexpr Planned<Tile> kMakeShortByWarps[] = {{Warps(16, 32, 512, 3), 1, kAny, 5}};
constexpr Planned<Warpgroup> kMakeShort[] = {
    {Short(64, 64, 4), 1, kAny, 33},
    {Short(64, 64, 4), kWide, kAny, 2},
    {Short(64, 128, 4), 65, kAny, 2},
    {Short(128, 256, 4), 129, kAny, 65},
};

// The measurements were made on an H200 and are in tests/gpu/results/. GPUs without warpgroup
// products use the same numbers, with the number of multiprocessors of the GPU.
constexpr MatMulPolicy kPolicies[] = {
    // 2026-11-26-h200-two-halves.txt (large tiles, pairs), 2026-11-23-h200-clusters.txt (split-K),
    // 2026-11-23-h200-few-rows.txt (groups), 2026-11-23-h200-sizes.txt, part 3 (second waves).
    // Clusters of more than two blocks for few tiles do not pay for their compile time:
    // 2026-11-23-h200-waves.txt.
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kSplit,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .large_tiles = kReadSplit,
     .most_rows_at_once = 8,
     .most_grouped_elements = 12288,
     .most_grouped_elements_of_long = 16384,
     .is_ahead_of_library = true,
     .most_own_terms = 4096,
     .most_own_elements = 1 << 21,
     .most_blocks_of_few = 2,
     .waves_of_smallest = 2,
     .doubles_for_second_wave = true,
     .pairs_for_half_a_wave = true,
     .fewest_measured_rows = 17},
    // 2026-11-23-h200-waves.txt, 2026-11-23-h200-clusters.txt, 2026-11-23-h200-few-rows.txt,
    // 2026-11-27-h200-tiles-side-by-side.txt.
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kTf32,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .large_tiles = kReadTf32,
     .most_rows_at_once = 8,
     .most_grouped_elements = 12288,
     .most_grouped_elements_of_long = 12288,
     .most_own_terms = 1024,
     .most_own_elements = 1 << 18,
     .most_blocks_of_few = 4,
     .fewest_measured_rows = 17},
    // The same sources. With 16-bit operands, groups are no faster than tiles.
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kHalf,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .large_tiles = kReadHalf,
     .tile_of_long_sums = &kLongHalf,
     .most_rows_at_once = 8,
     .most_own_terms = 1024,
     .most_own_elements = 1 << 16,
     .most_blocks_of_few = 4,
     .fewest_measured_rows = 17},
    // Codes in fp8, which warp tiles decode. There is no library product for them.
    // 2026-11-27-h200-fp8-products.txt.
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kFloat8,
     .makes_operand = true,
     .tiles = kMakeShortByWarps,
     .large_tiles = kReadFloat8,
     .most_rows_at_once = 4,
     .is_ahead_of_library = true,
     .most_blocks_of_few = 4,
     .fewest_measured_rows = 2},
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kShortFloat8,
     .makes_operand = true,
     .tiles = kMakeShortByWarps,
     .large_tiles = kReadShortFloat8,
     .most_rows_at_once = 4,
     .is_ahead_of_library = true,
     .most_blocks_of_few = 4,
     .fewest_measured_rows = 2},
    // 2026-11-22-h200-sweeps.txt (lola, dlrm, lecture), 2026-11-23-h200-few-rows.txt.
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kSplit,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .most_rows_at_once = 8,
     .most_grouped_elements = 12288,
     .most_grouped_elements_of_long = 16384,
     .most_own_terms = 4096,
     .most_own_elements = 1 << 21},
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kTf32,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .most_rows_at_once = 8,
     .most_grouped_elements = 12288,
     .most_grouped_elements_of_long = 12288,
     .most_own_terms = 1024,
     .most_own_elements = 1 << 18},
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kHalf,
     .makes_operand = false,
     .tiles = kReadByWarps,
     .most_rows_at_once = 8,
     .most_own_terms = 1024,
     .most_own_elements = 1 << 16},
    // 2026-11-24-h200-prologue.txt, for all products that compute their left operand.
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kSplit,
     .makes_operand = true,
     .tiles = kMakeSplitByWarps,
     .large_tiles = kMakeSplit,
     .most_rows_at_once = 4,
     .fewest_measured_rows = 2},
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kTf32,
     .makes_operand = true,
     .tiles = kMakeShortByWarps,
     .large_tiles = kMakeShort,
     .most_rows_at_once = 4,
     .fewest_measured_rows = 2},
    {.by_warpgroups = true,
     .arithmetic = Arithmetic::kHalf,
     .makes_operand = true,
     .tiles = kMakeShortByWarps,
     .large_tiles = kMakeShort,
     .most_rows_at_once = 4,
     .fewest_measured_rows = 2},
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kSplit,
     .makes_operand = true,
     .tiles = kMakeByWarps,
     .most_rows_at_once = 4},
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kTf32,
     .makes_operand = true,
     .tiles = kMakeByWarps,
     .most_rows_at_once = 4},
    {.by_warpgroups = false,
     .arithmetic = Arithmetic::kHalf,
     .makes_operand = true,
     .tiles = kMakeByWarps,
     .most_rows_at_once = 4},
};

}  // namespace

const MatMulPolicy& PolicyFor(const MatMulPlan& matmul, const PlanOptions& options) {
  const bool by_warpgroups = Warpgroup::Takes(matmul, options);
  const Arithmetic arithmetic =
      by_warpgroups ? WarpgroupArithmeticOf(matmul, options) : ArithmeticOf(matmul, options);
  const bool makes_operand = matmul.made != nullptr;
  const auto found =
      std::find_if(std::begin(kPolicies), std::end(kPolicies), [&](const MatMulPolicy& policy) {
        return policy.by_warpgroups == by_warpgroups && policy.arithmetic == arithmetic &&
               policy.makes_operand == makes_operand;
      });
  FUSEC_CHECK(found != std::end(kPolicies), "there is a policy for every product");
  return *found;
}

const Tile& TileOfShortSums() { return kShortSums; }
const Tile& TileOfTinySums() { return kTinySums; }

std::span<const Tile> TilesByWarps() { return kTiles; }

std::span<const Warpgroup> TilesByWarpgroups(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kSplit) return kSplitWarpgroups;
  if (arithmetic == Arithmetic::kFloat8) return kFloat8Warpgroups;
  if (arithmetic == Arithmetic::kShortFloat8) return kShortFloat8Warpgroups;
  return kShortWarpgroups;
}

}  // namespace fusec
