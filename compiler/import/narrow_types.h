#pragma once

#include <optional>
#include <span>

#include "compiler/ir/tensor.h"

namespace fusec {

// Element types of ONNX that constants may have and that computations do not: integers of 2 and 4
// bits, packed from the lowest bits of a byte on, and floats of 4 and 8 bits. They are unpacked
// into a dtype that holds each of their values exactly.
struct NarrowType {
  int bits = 8;
  Dtype held = Dtype::kF32;
};
std::optional<NarrowType> NarrowTypeFromOnnx(int data_type);

// The elements of `dims` whose packed bytes are `packed`; there are enough of them.
TensorData Unpacked(int data_type, std::vector<int64_t> dims, std::span<const std::byte> packed);

}  // namespace fusec
