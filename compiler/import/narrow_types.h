#pragma once

#include <optional>
#include <span>

#include "compiler/ir/tensor.h"

namespace fusec {

// ONNX element types that constants and the results of nodes may have, but no input or output of a
// model: integers of 2 and 4 bits, packed from the lowest bits of each byte, and floats of 4 and 8
// bits. They are held in a dtype that represents each of their values exactly.
struct NarrowType {
  // How a float is laid out: a sign, then `exponent` bits, then `mantissa` bits.
  struct Layout {
    int exponent = 0, mantissa = 0, bias = 0;
    // What is written besides finite numbers. With kNegativeZeroIsNaN there is only one zero.
    enum class Special { kNone, kOnlyNaN, kNegativeZeroIsNaN, kInfinities };
    Special special = Special::kNone;

    double Greatest() const;     // the greatest finite number
    double LeastNormal() const;  // the least power of two with all bits of mantissa
  };

  int data_type = 0;  // ONNX's number of it
  int bits = 8;
  Dtype held = Dtype::kF32;
  // For floats with a sign; null for FLOAT8E8M0, a power of two, to which nothing is converted at
  // run time.
  std::optional<Layout> layout = std::nullopt;

  int64_t LeastInteger() const { return IsUnsigned(held) ? 0 : -(int64_t{1} << (bits - 1)); }
  int64_t GreatestInteger() const { return (int64_t{1} << (bits - !IsUnsigned(held))) - 1; }
};
std::optional<NarrowType> NarrowTypeFromOnnx(int data_type);

// Unpacks a tensor of shape `dims`. `packed` must have enough bytes for it.
TensorData Unpacked(int data_type, std::vector<int64_t> dims, std::span<const std::byte> packed);

}  // namespace fusec
