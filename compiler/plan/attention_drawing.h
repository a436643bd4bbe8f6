#pragma once

#include <cstdint>
#include <optional>

#include "compiler/plan/drawing.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// The shared memory of an attention block (AttentionShape::Memory): its queries, and two or more
// tiles of keys and values, or one if there is only one. Sizes of rows are in bytes and include
// their padding. The keys of a tile are divided among key_warps warps, the tiles among
// cluster_blocks blocks.
struct DrawnAttention {
  int queries = 0, keys = 0;
  int64_t key_row = 0;  // also the size of a query's row
  int64_t value_row = 0;
  bool by_warpgroups = false;
  std::optional<int64_t> tiles;  // the number of key tiles, if known
  bool has_softmax = true;
  int key_warps = 1, cluster_blocks = 1;
  int tiles_ahead = 1;  // that are copied while one is used

  int64_t tile_bytes() const { return keys * (key_row + value_row); }
  int tiles_in_memory() const { return tiles == 1 ? 1 : tiles_ahead + 1; }
  int shared_bytes() const {
    return static_cast<int>(queries * key_row + tiles_in_memory() * tile_bytes());
  }
};
// The ops that make scores: from the product of queries and keys up to the input of softmax or,
// without a softmax, up to the weights. For a comment.
std::string ScoreInWords(const Node& region, const AttentionParts& parts);

Drawing DrawAttention(const DrawnAttention& drawn);

}  // namespace fusec
