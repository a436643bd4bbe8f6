#pragma once

#include <cstdint>
#include <optional>

#include "compiler/plan/drawing.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// What a block of attention has in shared memory (AttentionShape::Memory): its queries, and two
// tiles of keys and values, or the only one. Rows are in bytes, with what follows them.
struct DrawnAttention {
  int queries = 0, keys = 0;
  int64_t key_row = 0;  // and of a query
  int64_t value_row = 0;
  bool by_warpgroups = false;
  std::optional<int64_t> tiles;  // of keys, where it is known how many
  bool has_softmax = true;

  int64_t tile_bytes() const { return keys * (key_row + value_row); }
  int tiles_in_memory() const { return tiles == 1 ? 1 : 2; }
  int shared_bytes() const {
    return static_cast<int>(queries * key_row + tiles_in_memory() * tile_bytes());
  }
};
// The ops from the product of queries and keys on, up to what softmax is of, or the weights.
std::string ScoreInWords(const Node& region, const AttentionParts& parts);

Drawing DrawAttention(const DrawnAttention& drawn);

}  // namespace fusec
