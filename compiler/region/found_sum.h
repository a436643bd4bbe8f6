#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// A segment_reduce of rows that were sorted by their places (passes/sort_scatters.h):
//
//   %sorted, %order = top_k(%places), %bounds = lower_bounds(%sorted)
//   %bags = segment_reduce(gather(%updates, %order), %bounds[0:r], %bounds[1:r + 1], %places)
//
// Sorting takes several launches. Where places and updates are few, a kernel needs neither %order
// nor %bounds: each block reads all places, and finds the updates of its own rows
// (plan_found_sum.cc).

// The size by which a sum is one of few: the number of updates, or of half as many places. From
// kMostUpdatesFound on, sorting is faster (tests/gpu/results/2026-12-01-h200-found-updates.txt).
inline constexpr int64_t kMostUpdatesFound = 8192, kUpdatesPerPlace = 2;
Expr SizeOfFinding(const Expr& updates, const Expr& places, const Ranges& ranges);

// The order that picks the rows that `sum` adds up, a gather behind pointwise ops of one operand;
// null if there is none.
const Value* OrderOfRows(const Node& sum);
// The bounds of which the begins and ends of `sum` are slices; null if there are none.
const Value* BoundsOfRows(const Node& sum);

// Such a sum in the body of a region, if a kernel of the region can find its updates: each row of
// each result is computed from that row of the sum, and rows have a constant length.
struct FoundSum {
  const Node* sum;
  const Value *places, *order, *bounds;
  Expr size;  // SizeOfFinding
  int64_t finds_up_to;
};
std::optional<FoundSum> FoundSumOf(const Node& region);
// Whether such sums of the same size are all that reads the order and the bounds, which then need
// not be computed at all.
bool IsAllThatNeedsItsSort(const Graph& program, const Node& region, const FoundSum& found);

}  // namespace fusec
