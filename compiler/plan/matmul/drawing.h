#pragma once

#include <cstdint>
#include <optional>

#include "compiler/plan/drawing.h"
#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// What the drawing of a tile of the product a x b^T shows in addition to the tile.
struct DrawnProduct {
  Arithmetic arithmetic = Arithmetic::kHalf;
  bool is_made = false;              // the kernel computes the left operand
  std::optional<int64_t> row_bytes;  // per row of an operand; unknown if sizes are parameters
  int shared_bytes = 0;              // per block
};
Drawing DrawTile(const schedule::Tile& tile, const DrawnProduct& product);
Drawing DrawTile(const schedule::Warpgroup& tile, const DrawnProduct& product);

// A block that computes `columns` columns of up to `rows` rows, each column by warps_per_column
// warps.
struct DrawnColumns {
  int columns = 1, warps_per_column = 1;
  int rows = 1;
  int64_t pack = 1;  // elements of one load
  bool paired = false;
};
Drawing DrawColumns(const DrawnColumns& drawn);

// A block that computes 16 columns of few rows on tensor cores.
struct DrawnFewRows {
  int warps = 1;
  int64_t pack = 1;  // elements of one load
};
Drawing DrawFewRows(const DrawnFewRows& drawn);

}  // namespace fusec
