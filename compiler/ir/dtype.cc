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

// A binary float of 16 bits or fewer: 1 sign bit, then exponent, then mantissa.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int max_exponent() const { return (1 << exponent_bits) - 1; }
};
constexpr SmallFloat kHalf = {5, 10};
constexpr SmallFloat kBFloat16 = {8, 7};
constexpr SmallFloat kE4M3 = {4, 3};

// The layout of a double.
constexpr int kMantissaBits = 52, kBias = 1023;

// 2^exponent, which must be a normal double.
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kBias) << kMantissaBits);
}

// The magnitude of a finite float with these exponent and mantissa fields.
double Magnitude(int exponent, int mantissa, SmallFloat format) {
  if (exponent == 0) return mantissa * PowerOfTwo(1 - format.bias() - format.mantissa_bits);
  const auto biased = static_cast<uint64_t>(exponent - format.bias() + kBias);
  return std::bit_cast<double>(biased << kMantissaBits |
                               static_cast<uint64_t>(mantissa)
                                   << (kMantissaBits - format.mantissa_bits));
}

// The bits of the float in `format` that is nearest to a non-negative double, ties to even. The
// double must not be beyond the format's exponents. A carry out of the mantissa increments the
// exponent.
int RoundedBits(double magnitude, SmallFloat format) {
  const auto bits = std::bit_cast<uint64_t>(magnitude);
  const int exponent = static_cast<int>(bits >> kMantissaBits) - kBias + format.bias();
  uint64_t significand = bits & ((uint64_t{1} << kMantissaBits) - 1);
  int shift = kMantissaBits - format.mantissa_bits, exponent_field = 0;
  if (exponent > 0) {
    exponent_field = exponent << format.mantissa_bits;
  } else {  // subnormal: the leading one becomes explicit
    significand |= uint64_t{1} << kMantissaBits;
    shift += 1 - exponent;
    if (shift > kMantissaBits + 1) return 0;  // below half of the smallest subnormal
  }
  const uint64_t remainder = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  auto rounded = static_cast<int>(significand >> shift);
  if (remainder > half || (remainder == half && (rounded & 1) != 0)) ++rounded;
  return exponent_field + rounded;
}

double Widen(uint16_t bits, SmallFloat format) {
  const int exponent = (bits >> format.mantissa_bits) & format.max_exponent();
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double magnitude = exponent != format.max_exponent() ? Magnitude(exponent, mantissa, format)
                           : mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                                           : std::numeric_limits<double>::infinity();
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

// Converts directly from double, so that nothing is rounded twice.
uint16_t Narrow(double value, SmallFloat format) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = format.max_exponent() << format.mantissa_bits;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | infinity | 1 << (format.mantissa_bits - 1));
  const double magnitude = std::abs(value);
  const bool is_beyond = magnitude >= PowerOfTwo(format.max_exponent() - format.bias());
  return static_cast<uint16_t>(sign | (is_beyond ? infinity : RoundedBits(magnitude, format)));
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
  constexpr int kNan = 0x7f;
  const double magnitude = (bits & kNan) == kNan
                               ? std::numeric_limits<double>::quiet_NaN()
                               : Magnitude(bits >> kE4M3.mantissa_bits & kE4M3.max_exponent(),
                                           bits & ((1 << kE4M3.mantissa_bits) - 1), kE4M3);
  return std::copysign(magnitude, (bits & 0x80) != 0 ? -1.0 : 1.0);
}

uint8_t DoubleToE4M3(double value) {
  constexpr int kNan = 0x7f, kLargest = 0x7e;
  constexpr double kLargestValue = 448;
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | kNan);
  const double magnitude = std::abs(value);
  const int bits = magnitude >= kLargestValue ? kLargest : RoundedBits(magnitude, kE4M3);
  return static_cast<uint8_t>(sign | bits);
}

double Float8Factor(double greatest) {
  constexpr int kBits = 7, kLeast = -119;  // a factor of smaller numbers would have no reciprocal
  if (!std::isfinite(greatest)) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = greatest == 0 ? kLeast : std::max(std::ilogb(greatest), kLeast);
  return std::ldexp(1.0, kBits - exponent);
}

}  // namespace fusec
