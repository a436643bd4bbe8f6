#include "compiler/ir/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace fusec {
namespace {

struct DtypeRow {
  std::string_view name;
  int bytes;
};

constexpr DtypeRow kRows[kDtypeCount] = {
    {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f64", 8}, {"i8", 1},  {"i16", 2}, {"i32", 4},
    {"i64", 8}, {"u8", 1},  {"u16", 2},  {"u32", 4}, {"u64", 8}, {"bool", 1}};

// A 16-bit binary float: 1 sign bit, then exponent, then mantissa.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int max_exponent() const { return (1 << exponent_bits) - 1; }
};
constexpr SmallFloat kHalf = {5, 10};
constexpr SmallFloat kBFloat16 = {8, 7};

double Widen(uint16_t bits, SmallFloat format) {
  const int exponent = (bits >> format.mantissa_bits) & format.max_exponent();
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  double magnitude;
  if (exponent == format.max_exponent()) {
    magnitude = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                              : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa | (1 << format.mantissa_bits),
                           exponent - format.bias() - format.mantissa_bits);
  }
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

// Straight from double, so that nothing is rounded twice.
uint16_t Narrow(double value, SmallFloat format) {
  constexpr uint64_t kMantissaMask = (uint64_t{1} << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 63) << 15);
  const uint16_t infinity =
      static_cast<uint16_t>(sign | (format.max_exponent() << format.mantissa_bits));
  if (std::isnan(value)) {
    return static_cast<uint16_t>(infinity | (1 << (format.mantissa_bits - 1)));
  }
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023 + format.bias();
  if (exponent >= format.max_exponent()) return infinity;

  uint64_t significand = bits & kMantissaMask;
  int shift = 52 - format.mantissa_bits;
  uint64_t exponent_field = 0;
  if (exponent > 0) {
    exponent_field = static_cast<uint64_t>(exponent) << format.mantissa_bits;
  } else {  // subnormal: the leading one becomes explicit
    significand |= uint64_t{1} << 52;
    shift += 1 - exponent;
    if (shift > 53) return sign;  // below half of the smallest subnormal
  }
  const uint64_t remainder = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  uint64_t rounded = significand >> shift;
  if (remainder > half || (remainder == half && (rounded & 1) != 0)) ++rounded;
  // A carry out of the mantissa is the next exponent, and past the largest number infinity.
  return static_cast<uint16_t>(sign | (exponent_field + rounded));
}

}  // namespace

std::string_view DtypeName(Dtype dtype) { return kRows[static_cast<int>(dtype)].name; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  for (int i = 0; i < kDtypeCount; ++i) {
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

int DtypeBytes(Dtype dtype) { return kRows[static_cast<int>(dtype)].bytes; }

bool IsFloat(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16 ||
         dtype == Dtype::kF64;
}

bool IsInteger(Dtype dtype) { return !IsFloat(dtype) && dtype != Dtype::kBool; }

bool IsUnsigned(Dtype dtype) {
  return dtype == Dtype::kU8 || dtype == Dtype::kU16 || dtype == Dtype::kU32 ||
         dtype == Dtype::kU64;
}

double HalfToDouble(uint16_t bits) { return Widen(bits, kHalf); }
uint16_t DoubleToHalf(double value) { return Narrow(value, kHalf); }
double BFloat16ToDouble(uint16_t bits) { return Widen(bits, kBFloat16); }
uint16_t DoubleToBFloat16(double value) { return Narrow(value, kBFloat16); }

double E4M3ToDouble(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((bits & 0x7f) == 0x7f) magnitude = std::numeric_limits<double>::quiet_NaN();
  return std::copysign(magnitude, (bits & 0x80) != 0 ? -1.0 : 1.0);
}

uint8_t DoubleToE4M3(double value) {
  constexpr int kLargest = 0x7e;
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7f);
  const double magnitude = std::abs(value);
  if (magnitude >= E4M3ToDouble(kLargest)) return static_cast<uint8_t>(sign | kLargest);
  // Neighbours are 2^(exponent - 3) apart, and 2^-9 among subnormals; nearbyint rounds ties to
  // even.
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -6, -6);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  // 8 steps are the implicit one of the mantissa; 16 carry into the next exponent.
  return static_cast<uint8_t>(sign | (((exponent + 6) << 3) + steps));
}

}  // namespace fusec
