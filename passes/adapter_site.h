#pragma once

#include <cstdint>
#include <string>

namespace fusec {

// The name of the input that gives the slot of the adapter for each row of the batch.
inline constexpr const char* kAdapterInput = "adapter_id";

// Room for adapters that are loaded later (--adapters): `slots` of them, each of rank up to `rank`.
struct AdapterSlots {
  int64_t slots = 0, rank = 0;
};

// The rank that a slot stores for adapters of rank up to `rank`: a multiple of 8, as products of
// f16 and bf16 need.
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
