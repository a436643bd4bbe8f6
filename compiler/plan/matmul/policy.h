#pragma once

#include <cstdint>
#include <span>

#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// The measured policy for products: which tiles exist, and which products each of them serves.
// choose_schedules.cc applies it.

// A tile, and the products that it is planned for: those with least_columns to most_columns
// columns.
template <class TileType>
struct Planned {
  TileType tile;
  int64_t least_columns = 1, most_columns = INT64_MAX;
  int64_t from = 0;  // the fewest rows; 0: as many as fill it and keep the GPU busy

  bool Serves(int64_t columns) const { return least_columns <= columns && columns <= most_columns; }
};

struct MatMulPolicy {
  // The products that this row of the table is for: whether warpgroup products of the GPU support
  // them, their arithmetic, and whether the kernel computes the left operand itself.
  bool by_warpgroups;
  Arithmetic arithmetic;
  bool makes_operand;

  // Tiles from small to large: each has more data reuse and fewer blocks than the one before.
  std::span<const Planned<schedule::Tile>> tiles;
  std::span<const Planned<schedule::Warpgroup>> large_tiles = {};
  // A tile for products of many terms, whose loop takes longer than the epilogue that the tiles of
  // another block on the multiprocessor would hide; null for none.
  const schedule::Warpgroup* tile_of_long_sums = nullptr;

  // Kernels for few rows (schedule::Rows) compute at most this many rows at once.
  int64_t most_rows_at_once;
  // Results of up to this many elements are computed faster by groups of such rows than by tiles;
  // the second number is for long sums (kLongRowBytes). 0: groups are never faster.
  int64_t most_grouped_elements = 0, most_grouped_elements_of_long = 0;

  // Whether warpgroup tiles are faster than the library at any size. If not, the library computes
  // products whose sums have more than most_own_terms terms (unless clusters split them), and
  // results of more than most_own_elements elements.
  bool is_ahead_of_library = false;
  int64_t most_own_terms = 0, most_own_elements = 0;

  // The most blocks that split the depth of a warpgroup tile (split-K) if there are few tiles, and
  // the waves of the smallest warp tiles from which on this is done.
  int most_blocks_of_few = 1;
  int64_t waves_of_smallest = 1;
  // Whether a larger tile is used as soon as a tile of half its size needs a second wave.
  bool doubles_for_second_wave = false;
  // Whether two blocks split the depth of each largest tile if sums are long and the tiles fill
  // half a wave.
  bool pairs_for_half_a_wave = false;

  // Tuning measures warpgroup tiles only from this many rows on.
  int64_t fewest_measured_rows = 0;
};

// The row of the table that applies to the product. TakesOwnKernel must hold for it.
const MatMulPolicy& PolicyFor(const MatMulPlan& matmul, const PlanOptions& options);

// The tiles for sums of a single chunk, and for sums so short (kTinySum) that most of a tile's
// chunk would be zeros.
const schedule::Tile& TileOfShortSums();
const schedule::Tile& TileOfTinySums();

// All tiles; tuning measures those that fit a product.
std::span<const schedule::Tile> TilesByWarps();
std::span<const schedule::Warpgroup> TilesByWarpgroups(Arithmetic arithmetic);

// For sums of up to kTinySum terms, one thread per element is fastest if the result has up to
// kMostPlainElements elements, and the library if it has more than kMostTinyElements; a tile serves
// the results in between.
inline constexpr int64_t kMostPlainElements = 1 << 17;
inline constexpr int64_t kMostTinyElements = 1 << 22;

// Clusters split sums from rows of kLongRowBytes bytes on, and up to kMostSharedTerms terms.
inline constexpr int64_t kLongRowBytes = 4096;
inline constexpr int64_t kMostSharedTerms = 16384;

}  // namespace fusec
