#include "compiler/import/narrow_types.h"

#include <onnx/onnx_pb.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

using onnx::TensorProto;

using Layout = NarrowType::Layout;
using Special = Layout::Special;

double Decoded(const Layout& layout, int bits) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const int ones = (1 << layout.exponent) - 1;
  const int mantissa = bits & ((1 << layout.mantissa) - 1);
  const int exponent = bits >> layout.mantissa & ones;
  const bool is_negative = (bits >> (layout.mantissa + layout.exponent) & 1) != 0;
  if (layout.special == Special::kNegativeZeroIsNaN && is_negative && exponent + mantissa == 0) {
    return kNaN;
  }
  if (exponent == ones && layout.special == Special::kInfinities) {
    if (mantissa != 0) return kNaN;
    return is_negative ? -std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::infinity();
  }
  if (exponent == ones && layout.special == Special::kOnlyNaN &&
      mantissa == (1 << layout.mantissa) - 1) {
    return kNaN;
  }
  const double fraction = std::ldexp(mantissa, -layout.mantissa);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - layout.bias)
                                     : std::ldexp(1 + fraction, exponent - layout.bias);
  return is_negative ? -value : value;
}

}  // namespace

double NarrowType::Layout::Greatest() const {
  int code = (1 << (exponent + mantissa)) - 1;  // all ones but the sign
  if (special == Special::kOnlyNaN) --code;
  if (special == Special::kInfinities) code -= 1 << mantissa;
  return Decoded(*this, code);
}

double NarrowType::Layout::LeastNormal() const { return std::ldexp(1.0, 1 - bias); }

// In the names of the types, fn means that there are no infinities and uz that there is only one
// zero. (OCP 8-bit Floating Point Specification; arXiv 2206.02915 for the fnuz types)
std::optional<NarrowType> NarrowTypeFromOnnx(int data_type) {
  const auto integer = [&](int bits, Dtype held) { return NarrowType{data_type, bits, held}; };
  const auto real = [&](const Layout& layout) {
    return NarrowType{data_type, 1 + layout.exponent + layout.mantissa, Dtype::kF32, layout};
  };
  switch (data_type) {
    case TensorProto::INT2:
      return integer(2, Dtype::kI8);
    case TensorProto::INT4:
      return integer(4, Dtype::kI8);
    case TensorProto::UINT2:
      return integer(2, Dtype::kU8);
    case TensorProto::UINT4:
      return integer(4, Dtype::kU8);
    case TensorProto::FLOAT4E2M1:
      return real({2, 1, 1, Special::kNone});
    case TensorProto::FLOAT8E4M3FN:
      return real({4, 3, 7, Special::kOnlyNaN});
    case TensorProto::FLOAT8E4M3FNUZ:
      return real({4, 3, 8, Special::kNegativeZeroIsNaN});
    case TensorProto::FLOAT8E5M2:
      return real({5, 2, 15, Special::kInfinities});
    case TensorProto::FLOAT8E5M2FNUZ:
      return real({5, 2, 16, Special::kNegativeZeroIsNaN});
    case TensorProto::FLOAT8E8M0:
      return NarrowType{data_type};
    default:
      return std::nullopt;
  }
}

TensorData Unpacked(int data_type, std::vector<int64_t> dims, std::span<const std::byte> packed) {
  const NarrowType type = *NarrowTypeFromOnnx(data_type);
  TensorData data(type.held, std::move(dims));
  const int64_t per_byte = 8 / type.bits;
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const int byte = static_cast<int>(packed[static_cast<size_t>(i / per_byte)]);
    const int bits = byte >> (i % per_byte * type.bits) & ((1 << type.bits) - 1);
    if (type.layout) {
      data.SetDouble(i, Decoded(*type.layout, bits));
    } else if (type.held == Dtype::kF32) {  // FLOAT8E8M0
      data.SetDouble(
          i, bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127));
    } else {
      const bool is_negative = type.held == Dtype::kI8 && bits >> (type.bits - 1) != 0;
      data.SetInt(i, is_negative ? bits - (1 << type.bits) : bits);
    }
  }
  return data;
}

}  // namespace fusec
