#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// Drawings for the header comments of kernels (KernelPlan::drawing).
using Drawing = std::vector<std::string>;

// A line of cells side by side, with a label in front and a note behind.
struct DrawnRow {
  std::string label;
  std::vector<std::string> cells;
  std::string note;
};

// Adds "label | cell | cell |  note" lines, whose labels and cells are aligned.
void DrawRows(ArrayRef<DrawnRow> rows, Drawing& drawing);

// The same in a box, below `heads`, one for each column. Of many rows the first two and the last
// are drawn.
void DrawBox(ArrayRef<std::string> heads, std::vector<DrawnRow> rows, Drawing& drawing);

// "rows 16..31": number `i` of the parts of `size`.
std::string PartInWords(const std::string& what, int64_t i, int64_t size);

// How chunks pass through shared memory, drawn until a chunk has taken the place of an earlier one.
struct ChunkTimeline {
  int ahead = 1;                  // chunks that are on their way before the first is used
  bool overlaps = false;          // the first is used while these are on their way
  std::optional<int64_t> chunks;  // in all, where that is known
  std::string coming, used;       // what happens to a chunk, in a word each
  std::string coming_note, used_note;
};
void DrawTimeline(const ChunkTimeline& timeline, Drawing& drawing);

}  // namespace fusec
