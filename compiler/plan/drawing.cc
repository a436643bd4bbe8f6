#include "compiler/plan/drawing.h"

#include <algorithm>

namespace fusec {

namespace {

constexpr size_t kLeastLabel = 10;  // so that lines are aligned
constexpr size_t kMostRows = 4;
constexpr int64_t kSteps = 3;  // of a timeline, after its beginning

std::string Padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

size_t LabelWidth(ArrayRef<DrawnRow> rows) {
  size_t width = kLeastLabel;
  for (const DrawnRow& row : rows) width = std::max(width, row.label.size());
  return width;
}

std::vector<size_t> CellWidths(ArrayRef<DrawnRow> rows) {
  std::vector<size_t> widths;
  for (const DrawnRow& row : rows) {
    widths.resize(std::max(widths.size(), row.cells.size()), 0);
    for (size_t i = 0; i < row.cells.size(); ++i)
      widths[i] = std::max(widths[i], row.cells[i].size());
  }
  return widths;
}

void DrawAligned(ArrayRef<DrawnRow> rows, ArrayRef<size_t> widths, Drawing& drawing) {
  const size_t label_width = LabelWidth(rows);
  for (const DrawnRow& row : rows) {
    std::string line = Padded(row.label, label_width) + " |";
    for (size_t i = 0; i < row.cells.size(); ++i)
      line += " " + Padded(row.cells[i], widths[i]) + " |";
    drawing.push_back(line + (row.note.empty() ? "" : "  " + row.note));
  }
}

}  // namespace

void DrawRows(ArrayRef<DrawnRow> rows, Drawing& drawing) {
  DrawAligned(rows, CellWidths(rows), drawing);
}

void DrawBox(ArrayRef<std::string> heads, std::vector<DrawnRow> rows, Drawing& drawing) {
  if (rows.size() > kMostRows) {
    rows.erase(rows.begin() + 2, rows.end() - 1);
    rows.insert(rows.begin() + 2, {"...", std::vector<std::string>(heads.size(), "..."), ""});
  }
  std::vector<DrawnRow> with_heads = rows;
  with_heads.push_back({"", heads, ""});
  const std::vector<size_t> widths = CellWidths(with_heads);
  const std::string indent(LabelWidth(rows) + 1, ' ');
  std::string head = indent, border = indent + "+";
  for (size_t i = 0; i < heads.size(); ++i) {
    head += "  " + Padded(heads[i], widths[i] + 1);
    border += std::string(widths[i] + 2, '-') + "+";
  }
  head.erase(head.find_last_not_of(' ') + 1);
  drawing.push_back(head);
  drawing.push_back(border);
  DrawAligned(rows, widths, drawing);
  drawing.push_back(border);
}

std::string PartInWords(const std::string& what, int64_t i, int64_t size) {
  const std::string from = std::to_string(i * size), to = std::to_string((i + 1) * size - 1);
  return (what.empty() ? "" : what + " ") + from + (size > 1 ? ".." + to : "");
}

void DrawTimeline(const ChunkTimeline& timeline, Drawing& drawing) {
  const auto there = [&](int64_t chunk) {
    return !timeline.chunks || chunk < *timeline.chunks ? std::to_string(chunk) : "";
  };
  const int64_t before = std::min<int64_t>(timeline.ahead, timeline.chunks.value_or(INT64_MAX));
  const int64_t first = timeline.overlaps ? 1 : 0;  // the first chunk used in its own step
  DrawnRow coming{timeline.coming, {PartInWords("", 0, before)}, timeline.coming_note};
  DrawnRow used{timeline.used, {timeline.overlaps ? "0" : ""}, timeline.used_note};
  const int64_t left = timeline.chunks ? *timeline.chunks - first : INT64_MAX;
  for (int64_t step = 0; step < std::min(kSteps, left); ++step) {
    coming.cells.push_back(there(timeline.ahead + step));
    used.cells.push_back(there(first + step));
  }
  if (left > kSteps) {
    coming.cells.push_back(there(timeline.ahead + kSteps).empty() ? "" : "...");
    used.cells.push_back("...");
  }
  DrawRows({coming, used}, drawing);
}

}  // namespace fusec
