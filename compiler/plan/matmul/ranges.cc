#include "compiler/plan/matmul/ranges.h"

#include <algorithm>

namespace fusec {

int64_t FirstOfMany(const MatMulRanges& ranges) {
  int64_t first = 0;
  for (const MatMulRange& range : ranges) {
    if (std::holds_alternative<schedule::Rows>(range.schedule)) first = range.to + 1;
  }
  return first;
}

void Follow(const MatMulSchedule& schedule, FirstRows from, MatMulRanges& ranges) {
  if (!ranges.empty() && schedule == ranges.back().schedule) return;
  from = std::max(from, FirstRows(FirstOfMany(ranges)));
  while (!ranges.empty() && ranges.back().from >= from) ranges.pop_back();
  ranges.push_back({schedule, from});
}

void ServeInPlace(const MatMulSchedule& schedule, int64_t from, int64_t to, MatMulRanges& ranges) {
  const auto first = std::find_if(ranges.begin(), ranges.end(), [&](const MatMulRange& range) {
    return range.from.rows >= from;
  });
  auto next = ranges.end();
  while ((--next)->from.rows > to + 1) {
  }
  next->from = to + 1;
  ranges.insert(ranges.erase(first, next), {schedule, from});
}

MatMulRanges WithEnds(MatMulRanges ranges, const Ranges::Interval& rows) {
  MatMulRanges needed;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i + 1 < ranges.size()) ranges[i].to = ranges[i + 1].from.rows - 1;
    if (ranges[i].to < rows.low || ranges[i].from.rows > rows.high) continue;
    needed.push_back(ranges[i]);
    // The range after the kernels for few rows begins where these end, on any GPU.
    if (i > 0 && std::holds_alternative<schedule::Rows>(ranges[i - 1].schedule))
      needed.back().from.by_waves = false;
  }
  needed.front().from = 0;
  needed.back().to = INT64_MAX;
  return needed;
}

FirstRows RowsBeyond(int64_t blocks, const schedule::ResultTile& tile, int64_t n,
                     int64_t matrices) {
  return {blocks / (CeilDiv(n, tile.columns) * matrices) * tile.rows + 1, true};
}

FirstRows RowsFor(int64_t blocks, const schedule::ResultTile& tile, int64_t n, int64_t matrices) {
  return {(CeilDiv(blocks, CeilDiv(n, tile.columns) * matrices) - 1) * tile.rows + 1, true};
}

int64_t HalfOf(const schedule::ResultTile& tile) { return tile.rows / 2 + 1; }

}  // namespace fusec
