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

// The banks of a layer: constants [slots, rank, inputs] and [slots, outputs, rank]. Layers of the
// same rows may share banks (join-products); then the layer has the ranks from `first_rank` on and
// the outputs from `first_output` on, and its outputs have zeros in the ranks of the other layers.
struct AdapterBanks {
  int64_t rank = 0, outputs = 0;
  int64_t first_rank = 0, first_output = 0;

  bool operator==(const AdapterBanks&) const = default;
};

// A layer whose adapters lie in slots, with the stored rank.
struct AdapterSite {
  std::string module;    // what its adapter is called: "layers.0.self_attn.q_proj"
  std::string down, up;  // the banks
  int64_t inputs = 0, outputs = 0;
  double scale = 1;  // of the model's own adapter
  AdapterBanks banks = {};

  bool operator==(const AdapterSite&) const = default;
};

}  // namespace fusec
