#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// The input that says whose adapter a row of the batch gets.
inline constexpr const char* kAdapterInput = "adapter_id";

// Room for adapters that are loaded later (--adapters), of up to `rank` each.
struct AdapterSlots {
  int64_t slots = 0, rank = 0;
};

// How many columns of a slot hold an adapter of up to `rank`: products of halves go by eights.
constexpr int64_t StoredRank(int64_t rank) { return (rank + 7) / 8 * 8; }

// A layer whose adapters lie in slots: constants [slots, inputs, rank] and [slots, outputs, rank],
// with the stored rank.
struct AdapterSite {
  std::string module;    // what its adapter is called: "layers.0.self_attn.q_proj"
  std::string down, up;  // the constants
  int64_t inputs = 0, outputs = 0;
  double scale = 1;  // of the model's own adapter
};

}  // namespace fusec
