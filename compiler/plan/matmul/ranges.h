#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// The first of the rows that something serves.
struct FirstRows {
  int64_t rows = 0;
  bool by_waves = false;  // it follows from how many blocks the GPU runs at once

  FirstRows(int64_t rows, bool by_waves = false) : rows(rows), by_waves(by_waves) {}
  std::strong_ordering operator<=>(const FirstRows& other) const { return rows <=> other.rows; }
  bool operator==(const FirstRows& other) const { return rows == other.rows; }
};

// A way to make a product and the rows that it serves, inclusive.
struct MatMulRange {
  MatMulSchedule schedule;
  FirstRows from = 0;
  int64_t to = INT64_MAX;
};

// Ranges in the making: by rising `from`. Their ends are set when all are there, but for those of
// kernels for few rows (schedule::Rows), which come first and say where they end.
using MatMulRanges = std::vector<MatMulRange>;

// The first rows that the kernels for few leave.
int64_t FirstOfMany(const MatMulRanges& ranges);
// Lets a schedule follow from `from` rows on, behind the kernels for few, in place of what would
// begin there or later.
void Follow(const MatMulSchedule& schedule, FirstRows from, MatMulRanges& ranges);
// Lets one serve from `from` rows up to `to`, in place of what begins there.
void ServeInPlace(const MatMulSchedule& schedule, int64_t from, int64_t to, MatMulRanges& ranges);
// Those that serve some rows of `rows`, with their ends.
MatMulRanges WithEnds(MatMulRanges ranges, const Ranges::Interval& rows);

// The fewest rows of each of `matrices` products of `n` columns that take more than `blocks`
// blocks, which the GPU runs at once.
FirstRows RowsBeyond(int64_t blocks, const schedule::ResultTile& tile, int64_t n, int64_t matrices);
// The fewest rows that give `tile` as many blocks.
FirstRows RowsFor(int64_t blocks, const schedule::ResultTile& tile, int64_t n, int64_t matrices);
// The fewest rows that fill half of a tile: with less, a smaller one is ahead.
int64_t HalfOf(const schedule::ResultTile& tile);

}  // namespace fusec
