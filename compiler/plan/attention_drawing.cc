#include "compiler/plan/attention_drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_def.h"

namespace fusec {

Drawing DrawAttention(const DrawnAttention& drawn) {
  constexpr int kWarpQueries = 16, kWarpgroupQueries = 64;
  constexpr int64_t kDrawnTiles = 3;
  const int own = drawn.by_warpgroups ? kWarpgroupQueries : kWarpQueries;
  const char* who = drawn.by_warpgroups ? "warpgroup" : "warp";
  Drawing drawing = {fmt::format("a block's scores, {} queries of a head by {} keys at a time",
                                 drawn.queries, drawn.keys)};
  const int64_t tiles = drawn.tiles.value_or(INT64_MAX);
  std::vector<std::string> heads;
  for (int64_t tile = 0; tile < std::min(tiles, kDrawnTiles); ++tile)
    heads.push_back(PartInWords(tile == 0 ? "keys" : "", tile, drawn.keys));
  if (tiles > kDrawnTiles) heads.push_back("...");
  std::vector<DrawnRow> rows;
  for (int i = 0; i < drawn.queries / own; ++i) {
    DrawnRow row{PartInWords("queries", i, own), {}, ""};
    for (const std::string& head : heads)
      row.cells.push_back(head == "..." ? head : fmt::format("{} {}", who, i));
    rows.push_back(std::move(row));
  }
  DrawBox(heads, std::move(rows), drawing);
  drawing.push_back(fmt::format(
      "{} bytes of shared memory{}:", drawn.shared_bytes(),
      drawn.by_warpgroups ? ", in panels of 128 bytes per row" : ", each row padded by 16"));
  DrawRows({{"queries", {fmt::format("{} x {}", drawn.queries, drawn.key_row)}, "read once"}},
           drawing);
  const bool has_one = drawn.tiles_in_memory() == 1;
  DrawRows({{has_one ? "tile" : "tile t",
             {fmt::format("keys {} x {}", drawn.keys, drawn.key_row),
              fmt::format("values {} x {}", drawn.keys, drawn.value_row)},
             fmt::format("{}{} bytes", has_one ? "" : "place t % 2, ", drawn.tile_bytes())}},
           drawing);
  ChunkTimeline timeline;  // its chunks are tiles
  timeline.chunks = drawn.tiles;
  timeline.coming = "fetched";
  timeline.used = "used";
  timeline.used_note =
      drawn.has_softmax ? "softmax and sums of values in registers" : "sums of values in registers";
  DrawTimeline(timeline, drawing);
  return drawing;
}

std::string ScoreInWords(const Node& region, const AttentionParts& parts) {
  std::string words;
  for (const auto& node : region.body->nodes) {
    if (parts.nodes.count(node.get()) == 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
    if (node->result() == parts.score) break;
  }
  return words;
}

}  // namespace fusec
