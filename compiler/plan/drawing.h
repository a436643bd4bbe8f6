#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// Drawings for the header comments of kernels (KernelPlan::drawing).
using Drawing = std::vector<std::string>;

// A line of adjacent cells, with a label before and a note after them.
struct DrawnRow {
  std::string label;
  std::vector<std::string> cells;
  std::string note;
};

// Adds "label | cell | cell |  note" lines, whose labels and cells are aligned.
void DrawRows(ArrayRef<DrawnRow> rows, Drawing& drawing);

// Draws the rows in a box below `heads`, which has one entry per column. If there are many rows,
// only the first two and the last are drawn.
void DrawBox(ArrayRef<std::string> heads, std::vector<DrawnRow> rows, Drawing& drawing);

// Names part number `i` of parts of `size` elements: "rows 16..31".
std::string PartInWords(const std::string& what, int64_t i, int64_t size);

// The times at which chunks are copied to shared memory and used, drawn until a chunk overwrites an
// earlier one.
struct ChunkTimeline {
  int ahead = 1;                  // chunks whose copies start before the first is used
  bool overlaps = false;          // the first is used while these are copied
  std::optional<int64_t> chunks;  // the number of all chunks, if known
  std::string coming, used;       // labels: "copied", "multiplied"
  std::string coming_note, used_note;
};
void DrawTimeline(const ChunkTimeline& timeline, Drawing& drawing);

}  // namespace fusec
