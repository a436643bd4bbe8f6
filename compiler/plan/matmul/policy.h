#pragma once

#include <cstdint>
#include <span>

#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// What was measured of products: the tiles there are, and which of them serves which products. To
// choose is to read this (choose_schedules.cc).

// A tile that is planned for products of so many columns.
template <class TileType>
struct Planned {
  TileType tile;
  int64_t least_columns = 1, most_columns = INT64_MAX;
  int64_t from = 0;  // rows from which on it serves; 0: those that fill it and keep the GPU busy

  bool Serves(int64_t columns) const { return least_columns <= columns && columns <= most_columns; }
};

struct MatMulPolicy {
  // The products: on GPUs with warpgroup products that take them, or by warps; of that arithmetic;
  // whose kernel makes its left operand, or reads it.
  bool by_warpgroups;
  Arithmetic arithmetic;
  bool makes_operand;

  // From small to large: each has more reuse and fewer blocks than the one before.
  std::span<const Planned<schedule::Tile>> tiles;
  std::span<const Planned<schedule::Warpgroup>> large_tiles = {};

  // Kernels for few rows (schedule::Rows) make so many at once.
  int64_t most_rows_at_once;
  // The elements of a result up to which groups of so many rows are ahead of tiles; and of long
  // sums (kLongRowBytes). 0: they never are.
  int64_t most_grouped_elements = 0, most_grouped_elements_of_long = 0;

  // Whether tiles by warpgroups are ahead of the library at any size. Where not, the library makes
  // sums of more terms than the first, unless clusters share them out, and results of more elements
  // than the second.
  bool is_ahead_of_library = false;
  int64_t most_own_terms = 0, most_own_elements = 0;

  // Blocks that share out the sums of a tile by warpgroups where tiles are few (split-K), and the
  // waves of the smallest tiles by warps after which they do.
  int most_blocks_of_few = 1;
  int64_t waves_of_smallest = 1;
  // Whether a larger tile takes over as soon as one of half its size has a second wave.
  bool doubles_for_second_wave = false;
  // Whether blocks in pairs make long sums of the largest tiles where these are half a wave.
  bool pairs_for_half_a_wave = false;

  // Rows from which on tuning measures tiles by warpgroups.
  int64_t fewest_measured_rows = 0;
};

// The row of the table that the product falls under. It TakesOwnKernel.
const MatMulPolicy& PolicyFor(const MatMulPlan& matmul, const PlanOptions& options);

// Of sums that are a tile of one chunk, and of sums so short that a tile of them is mostly filled
// with zeros (kTinySum).
const schedule::Tile& TileOfShortSums();
const schedule::Tile& TileOfTinySums();

// All tiles there are, which tuning measures where they fit.
std::span<const schedule::Tile> TilesByWarps();
std::span<const schedule::Warpgroup> TilesByWarpgroups(Arithmetic arithmetic);

// Terms of a sum up to which a thread per element is sooner done where elements are few, and the
// library where they are many; and these numbers of elements.
inline constexpr int64_t kTinySum = 16;
inline constexpr int64_t kMostPlainElements = 1 << 17;
inline constexpr int64_t kMostTinyElements = 1 << 22;

// Sums that clusters share out: from rows of so many bytes up to so many terms.
inline constexpr int64_t kLongRowBytes = 4096;
inline constexpr int64_t kMostSharedTerms = 16384;

}  // namespace fusec
