#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

class JsonValue;
struct Buffer;

// A layer whose low-rank adapters are in slots. `down` and `up` are the buffers of constants
// [slots, stored_rank, inputs] and [slots, outputs, stored_rank].
struct AdapterSite {
  std::string module;
  int down = -1, up = -1;
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
// The parts that make up slot number `slot`: down and up of each layer in turn.
std::vector<ConstantPart> PartsOfSlot(const Adapters& adapters, int64_t slot);

}  // namespace fusec::runtime
