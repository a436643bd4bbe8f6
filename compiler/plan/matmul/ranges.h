#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// The smallest number of rows that a schedule serves.
struct FirstRows {
  int64_t rows = 0;
  bool by_waves = false;  // it depends on how many blocks the GPU runs at once

  FirstRows(int64_t rows, bool by_waves = false) : rows(rows), by_waves(by_waves) {}
  std::strong_ordering operator<=>(const FirstRows& other) const { return rows <=> other.rows; }
  bool operator==(const FirstRows& other) const { return rows == other.rows; }
};

// A schedule of a product, and the range of rows from..to (inclusive) that it serves.
struct MatMulRange {
  MatMulSchedule schedule;
  FirstRows from = 0;
  int64_t to = INT64_MAX;
};

// A list of ranges under construction, in ascending order of `from`. The ranges of kernels for few
// rows (schedule::Rows) come first and have their `to`; WithEnds sets the ends of the others.
using MatMulRanges = std::vector<MatMulRange>;

// The smallest number of rows that the kernels for few rows do not serve.
int64_t FirstOfMany(const MatMulRanges& ranges);
// Lets a schedule serve from `from` rows on, but never rows that the kernels for few rows serve. It
// replaces the ranges that begin there or later.
void Follow(const MatMulSchedule& schedule, FirstRows from, MatMulRanges& ranges);
// Lets a schedule serve from..to rows, in place of the ranges that begin there.
void ServeInPlace(const MatMulSchedule& schedule, int64_t from, int64_t to, MatMulRanges& ranges);
// The ranges that serve some of `rows`, with their ends set.
MatMulRanges WithEnds(MatMulRanges ranges, const Ranges::Interval& rows);

// The fewest rows, for each of `matrices` products of `n` columns, with which `tile` needs more
// than `blocks` blocks, the number that the GPU runs at once.
FirstRows RowsBeyond(int64_t blocks, const schedule::ResultTile& tile, int64_t n, int64_t matrices);
// The fewest rows with which `tile` has at least `blocks` blocks.
FirstRows RowsFor(int64_t blocks, const schedule::ResultTile& tile, int64_t n, int64_t matrices);
// The fewest rows that fill half of a tile. With fewer rows, a smaller tile is faster.
int64_t HalfOf(const schedule::ResultTile& tile);

}  // namespace fusec
