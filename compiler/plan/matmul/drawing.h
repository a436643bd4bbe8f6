#pragma once

#include <cstdint>
#include <optional>

#include "compiler/plan/drawing.h"
#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// What the drawing of a tile of the product a x b^T shows beside the tile itself.
struct DrawnProduct {
  Arithmetic arithmetic = Arithmetic::kHalf;
  bool is_made = false;              // the left operand, by the kernel
  std::optional<int64_t> row_bytes;  // of an operand's row, unless the kernel takes sizes
  int shared_bytes = 0;              // of a block
};
Drawing DrawTile(const schedule::Tile& tile, const DrawnProduct& product);
Drawing DrawTile(const schedule::Warpgroup& tile, const DrawnProduct& product);

// What a block of `columns` columns, each by some warps, makes of up to `rows` rows.
struct DrawnColumns {
  int columns = 1, warps_per_column = 1;
  int rows = 1;
  int64_t pack = 1;  // elements of one load
};
Drawing DrawColumns(const DrawnColumns& drawn);

}  // namespace fusec
