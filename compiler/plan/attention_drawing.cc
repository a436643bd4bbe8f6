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
  const bool splits_keys = drawn.key_warps > 1;
  for (int i = 0; i < drawn.queries / own; ++i) {
    DrawnRow row{PartInWords("queries", i, own), {}, ""};
    for (size_t tile = 0; tile < heads.size(); ++tile) {
      const std::string cell =
          !splits_keys ? fmt::format("{} {}", who, i)
          : drawn.cluster_blocks == 1
              ? fmt::format("{}s 0..{}", who, drawn.key_warps - 1)
              : fmt::format("block {}", tile % static_cast<size_t>(drawn.cluster_blocks));
      row.cells.push_back(heads[tile] == "..." ? heads[tile] : cell);
    }
    rows.push_back(std::move(row));
  }
  DrawBox(heads, std::move(rows), drawing);
  if (splits_keys) {
    const bool is_cluster = drawn.cluster_blocks > 1;
    drawing.push_back(fmt::format(
        "Each of {} warps has {} keys of a tile{}.", drawn.key_warps, drawn.keys / drawn.key_warps,
        is_cluster ? fmt::format(", each block one of {} tiles", drawn.cluster_blocks) : ""));
    drawing.push_back(
        fmt::format("Warp 0{} joins the sums of all.", is_cluster ? " of block 0" : ""));
  }
  drawing.push_back(fmt::format(
      "{} bytes of shared memory{}:", drawn.shared_bytes(),
      drawn.by_warpgroups ? ", in panels of 128 bytes per row" : ", each row padded by 16"));
  DrawRows({{"queries", {fmt::format("{} x {}", drawn.queries, drawn.key_row)}, "read once"}},
           drawing);
  const bool has_one = drawn.tiles_in_memory() == 1;
  DrawRows({{has_one ? "tile" : "tile t",
             {fmt::format("keys {} x {}", drawn.keys, drawn.key_row),
              fmt::format("values {} x {}", drawn.keys, drawn.value_row)},
             has_one ? fmt::format("{} bytes", drawn.tile_bytes())
                     : fmt::format("place t % {}, {} bytes", drawn.tiles_in_memory(),
                                   drawn.tile_bytes())}},
           drawing);
  ChunkTimeline timeline;  // its chunks are tiles
  timeline.chunks = drawn.tiles;
  timeline.ahead = drawn.tiles_ahead;
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
