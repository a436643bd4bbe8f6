#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

class JsonValue;
struct Buffer;

// The size of the banks in which a layer's adapters are stored, constants [slots, rank, inputs] and
// [slots, outputs, rank], and the layer's part of a slot: stored_rank ranks from `first_rank` on, and
// its outputs from `first_output` on, which have zeros in all other ranks. The other parts belong to
// layers of the same rows.
struct AdapterBanks {
  int64_t rank = 0, outputs = 0;
  int64_t first_rank = 0, first_output = 0;
};

// A layer whose low-rank adapters are in slots. `down` and `up` are the buffers of its banks. Targets
// that join different layers have different banks; then several layers have the same module.
struct AdapterSite {
  std::string module;
  int down = -1, up = -1;
  AdapterBanks banks;
  fusec_dtype dtype = FUSEC_F32;
  int64_t inputs = 0, outputs = 0;
  double scale = 1;  // scale of the ONNX model's adapter
};

struct Adapters {
  int64_t slots = 0;        // 0 without --adapters
  int64_t rank = 0;         // largest allowed rank of an adapter
  int64_t stored_rank = 0;  // rank for which a slot has room
  std::vector<AdapterSite> sites;
};

// Reads the key "adapters" of a manifest and checks that its buffers are constants of the right
// size. Without the key there are no slots.
StatusOr<Adapters> ReadAdapters(const JsonValue& manifest, const std::vector<Buffer>& buffers);

// A part of a constant.
struct ConstantPart {
  int buffer = 0;
  size_t offset = 0, bytes = 0;
};
// The parts that make up slot number `slot`: down and up of each layer in turn, [stored_rank, inputs]
// and [outputs, rank of the bank].
std::vector<ConstantPart> PartsOfSlot(const Adapters& adapters, int64_t slot);

}  // namespace fusec::runtime
