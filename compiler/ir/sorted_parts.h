#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Sorts of long lines, which passes/split_sorts.h splits: a top_k with this attribute sorts each
// part of that many elements of a line, and a merge_sorted puts the parts together.
inline constexpr const char* kPart = "part";
// A merge_sorted with this attribute puts so many consecutive parts together, from which all
// elements are kept, and makes a larger part of them.
inline constexpr const char* kGroup = "group";
// The most parts of a long line that are put together at once if all their elements are kept: an
// element is searched for in all others.
inline constexpr int64_t kMostParts = 16;

// Attribute of a top_k of integers that are all in 0 .. below - 1: dims[below].
inline constexpr const char* kBelow = "below";

// The most bits of a digit, and the most numbers of a tile, of digit_counts and order_by_digit: a
// block of a GPU counts the one and holds the other in shared memory.
inline constexpr int64_t kMostDigitBits = 9, kMostDigitTile = 4096;

// Attribute of a scatter_elements no two of whose updates go to one place, because a sort made the
// indices: 1 (passes/sort_scatters.h).
inline constexpr const char* kDistinct = "distinct";

// Attribute of a segment_reduce of sorted rows: the greatest size (region/found_sum.h) at which a
// kernel finds the rows of each bag among the unsorted ones, instead of reading them sorted.
inline constexpr const char* kFindsUpTo = "finds_up_to";

// The most elements that a kernel sorts at once.
inline constexpr int64_t kMostSorted = 4096;
// On a GPU, the most elements of which a block chooses the first ones before it sorts these, and
// how many it may choose.
inline constexpr int64_t kMostChosenFrom = 8192, kMostChosen = 1024;

// How a line of a top_k or merge_sorted is cut.
struct SortedParts {
  Expr length;  // elements of the line
  Expr parts;   // how many
  Expr part;    // elements of each part, but the last; `length` if there is one part
  Expr kept;    // elements that are kept of each part; missing ones are at the end of the last

  // The elements that are kept of part `number`.
  Expr KeptOf(const Expr& number, const Ranges& ranges) const;
};
SortedParts PartsOfTopK(const Node& top_k, const Ranges& ranges);
SortedParts PartsOfMerge(const Node& merge_sorted, const Ranges& ranges);

}  // namespace fusec
