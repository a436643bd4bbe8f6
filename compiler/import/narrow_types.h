#pragma once

#include <optional>
#include <span>

#include "compiler/ir/tensor.h"

namespace fusec {

// ONNX element types that are supported for constants only: integers of 2 and 4 bits, packed from
// the lowest bits of each byte, and floats of 4 and 8 bits. They are unpacked into a dtype that
// represents each of their values exactly.
struct NarrowType {
  int bits = 8;
  Dtype held = Dtype::kF32;
};
std::optional<NarrowType> NarrowTypeFromOnnx(int data_type);

// Unpacks a tensor of shape `dims`. `packed` must have enough bytes for it.
TensorData Unpacked(int data_type, std::vector<int64_t> dims, std::span<const std::byte> packed);

}  // namespace fusec
