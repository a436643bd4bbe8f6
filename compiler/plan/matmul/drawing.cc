#include "compiler/plan/matmul/drawing.h"

#include <fmt/format.h>

namespace fusec {

namespace {

constexpr int kWarpSize = 32;
constexpr const char* kSplitInWords = "3xTF32: a_low b + a b_low + a b";
constexpr const char* kSplitHalvesInWords = "3xf16: a b + (a_low b + a b_low) / 2048";

// Numbers `first`, first + step, ... below `end`.
std::string Numbers(int first, int step, int end) {
  std::string text;
  for (int i = first; i < end; i += step) text += (text.empty() ? "" : " ") + std::to_string(i);
  return text;
}

constexpr const char* kChunk = "chunk k";

// The place of a chunk.
std::string StageInWords(const schedule::ResultTile& tile, int bytes) {
  return fmt::format("stage k % {}, {} bytes", tile.stages, bytes);
}

// The size of shared memory, and the chunks in which the rows of both operands pass through it.
std::string ChunksInWords(const DrawnProduct& drawn, int bytes) {
  const auto chunks =
      drawn.row_bytes ? std::optional(CeilDiv(*drawn.row_bytes, bytes)) : std::nullopt;
  const std::string in = !chunks        ? "chunks"
                         : *chunks == 1 ? "one chunk"
                                        : fmt::format("{} chunks", *chunks);
  return fmt::format("{} bytes of shared memory: a row is read in {} of {} bytes",
                     drawn.shared_bytes, in, bytes);
}

}  // namespace

// Draws how MultiplyTile divides a tile and fills stages (matmul_tile.cuh).
Drawing DrawTile(const schedule::Tile& tile, const DrawnProduct& drawn) {
  const int depth_warps = tile.split_k.warps;
  const int warps = tile.row_warps * tile.column_warps * depth_warps;
  const int parts = tile.row_warps * tile.column_warps;
  constexpr int kPadding = 16;
  const int pitch = tile.chunk_bytes + kPadding;
  Drawing drawing = {
      fmt::format("a block's tile, {} x {} of the product a x b^T", tile.rows, tile.columns) +
      (depth_warps > 1 ? "; warps of a part split each chunk" : "")};
  std::vector<std::string> heads;
  std::vector<DrawnRow> rows(tile.row_warps);
  for (int column = 0; column < tile.column_warps; ++column)
    heads.push_back(
        PartInWords(column == 0 ? "columns" : "", column, tile.columns / tile.column_warps));
  for (int row = 0; row < tile.row_warps; ++row) {
    rows[row].label = PartInWords("rows", row, tile.rows / tile.row_warps);
    for (int column = 0; column < tile.column_warps; ++column)
      rows[row].cells.push_back((depth_warps > 1 ? "warps " : "warp ") +
                                Numbers(row + tile.row_warps * column, parts, warps));
  }
  DrawBox(heads, std::move(rows), drawing);
  drawing.push_back(
      fmt::format("{}, padded by {}:", ChunksInWords(drawn, tile.chunk_bytes), kPadding));
  DrawRows(
      {{kChunk,
        {fmt::format("a {} x {}", tile.rows, pitch), fmt::format("b {} x {}", tile.columns, pitch)},
        StageInWords(tile, (tile.rows + tile.columns) * pitch)}},
      drawing);
  DrawRows({{"at the end",
             {fmt::format("sums f32[{}][{}][{}]", depth_warps, tile.rows, tile.columns + 8)},
             fmt::format("{} bytes, overwriting the stages",
                         depth_warps * tile.rows * (tile.columns + 8) * 4)}},
           drawing);
  ChunkTimeline timeline;
  timeline.ahead = tile.stages - 1;
  if (drawn.row_bytes) timeline.chunks = CeilDiv(*drawn.row_bytes, tile.chunk_bytes);
  timeline.coming = drawn.is_made ? "made" : "copied";
  timeline.coming_note = drawn.is_made ? "a by all threads, while b is copied" : "by cp.async";
  timeline.used = "multiplied";
  timeline.used_note = drawn.arithmetic == Arithmetic::kSplit ? kSplitInWords : "by mma.sync";
  DrawTimeline(timeline, drawing);
  return drawing;
}

// Draws how MultiplyTileByWarpgroups divides a tile and fills stages (matmul_warpgroup.cuh).
Drawing DrawTile(const schedule::Warpgroup& tile, const DrawnProduct& drawn) {
  const bool is_split = drawn.arithmetic == Arithmetic::kSplit;
  const int chunk_bytes = schedule::Warpgroup::ChunkBytes(drawn.arithmetic);
  const int groups = tile.groups(), blocks = tile.split_k.blocks;
  Drawing drawing = {fmt::format("the tile of a {}, {} x {} of the product a x b^T",
                                 blocks > 1 ? fmt::format("cluster of {} blocks", blocks) : "block",
                                 tile.rows, tile.columns)};
  std::vector<DrawnRow> rows;
  for (int group = 0; group < groups; ++group)
    rows.push_back({PartInWords("rows", group, schedule::Warpgroup::kGroupRows),
                    {fmt::format("warpgroup {}, each warp 16 rows", group)},
                    group == 0 ? fmt::format("warpgroup {} fills the stages", groups) : ""});
  DrawBox({PartInWords("columns", 0, tile.columns)}, std::move(rows), drawing);
  if (blocks > 1) {
    const int share = tile.rows / blocks;
    drawing.push_back(fmt::format(
        "of n chunks, block r of the cluster multiplies n r / {0} up to n (r + 1) / {0}; then it",
        blocks));
    drawing.push_back(fmt::format(
        "stores {0} rows from {0} r on, adding the sums in the shared memory of the {1} blocks",
        share, blocks));
  }
  drawing.push_back(ChunksInWords(drawn, chunk_bytes) + ":");
  const std::string panels = fmt::format("{} x {}", tile.columns, schedule::Warpgroup::kPanelBytes);
  std::vector<std::string> stage = {fmt::format("a {} x {}", tile.rows, chunk_bytes),
                                    "b " + panels};
  if (is_split) stage.push_back("b_low " + panels);
  DrawRows({{kChunk, stage, StageInWords(tile, tile.StageBytes(drawn.arithmetic))}}, drawing);
  std::vector<std::string> behind = {fmt::format("filled[{}]", tile.stages),
                                     fmt::format("used[{}]", tile.stages)};
  const bool has_units = is_split || IsFloat8(drawn.arithmetic);
  if (has_units) behind.push_back(fmt::format("units f32[{}]", tile.columns));
  const char* note = is_split    ? "and the units of b's halves"
                     : has_units ? "and the units of b's columns"
                                 : "by which both sides wait";
  DrawRows({{"barriers", behind, note}}, drawing);
  DrawRows({{"at the end",
             {fmt::format("sums f32[{}][{}]", tile.rows, tile.columns + 8)},
             fmt::format("{} bytes, overwriting the stages", tile.rows * (tile.columns + 8) * 4)}},
           drawing);
  ChunkTimeline timeline;
  timeline.ahead = tile.stages;
  timeline.overlaps = true;
  // In a cluster, each block has a part of the chunks.
  if (drawn.row_bytes && blocks == 1) timeline.chunks = CeilDiv(*drawn.row_bytes, chunk_bytes);
  timeline.coming = "filled";
  timeline.coming_note =
      drawn.is_made ? "a is made, b by bulk copies" : "a by cp.async, b by bulk copies";
  timeline.used = "multiplied";
  timeline.used_note = is_split    ? kSplitHalvesInWords
                       : has_units ? "by wgmma, of E4M3"
                                   : "by wgmma";
  DrawTimeline(timeline, drawing);
  return drawing;
}

Drawing DrawColumns(const DrawnColumns& drawn) {
  const int warps = drawn.warps_per_column, threads = warps * kWarpSize;
  Drawing drawing = {drawn.paired ? "a block's columns of the result, each from two of a x b^T"
                                  : "a block's columns of the product a x b^T"};
  std::vector<std::string> heads;
  DrawnRow row{PartInWords(drawn.rows > 1 ? "rows" : "row", 0, drawn.rows), {}, ""};
  for (int column = 0; column < drawn.columns; ++column) {
    heads.push_back((column == 0 ? "column " : "") + std::to_string(column));
    row.cells.push_back((warps > 1 ? "warps " : "warp ") + PartInWords("", column, warps));
  }
  DrawBox(heads, {row}, drawing);
  drawing.push_back(
      fmt::format("thread t of a column's {0} multiplies packs t, t + {0}, ... of {1} weights by "
                  "all rows;",
                  threads, drawn.pack));
  drawing.push_back(fmt::format("then lane r of {} has the sum of row r",
                                warps == 1 ? "its warp" : "each of its warps"));
  return drawing;
}

Drawing DrawFewRows(const DrawnFewRows& drawn) {
  constexpr int kShown = 4;
  Drawing drawing = {
      "the 16 columns of a block of the product a x b^T, and its warps, which split the depth"};
  std::vector<std::string> heads;
  DrawnRow row{"columns 0-15", {}, ""};
  for (int warp = 0; warp < std::min(drawn.warps, kShown); ++warp) {
    const int pack = 4 * warp;
    heads.push_back(fmt::format("packs {}-{}", pack, pack + 3));
    row.cells.push_back("warp " + std::to_string(warp));
  }
  DrawBox(heads, {row}, drawing);
  drawing.push_back(
      fmt::format("{} the packs, of {} weights,{} lane t of a warp",
                  drawn.warps == 1 ? "one warp takes" : fmt::format("{} warps take", drawn.warps),
                  drawn.pack, drawn.warps == 1 ? "" : " in turn;"));
  drawing.push_back(
      "multiplies pack t % 4 of columns t / 4 and t / 4 + 8 by rows t / 4, t / 4 + 8, ..;");
  drawing.push_back("thread i then adds up the warps' sums of column i % 16 and row i / 16, ..");
  return drawing;
}

}  // namespace fusec
