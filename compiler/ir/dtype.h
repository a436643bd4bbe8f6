#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fusec {

enum class Dtype : uint8_t {
  kF32, kF16, kBF16, kF64, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool
};
inline constexpr int kDtypeCount = 13;

std::string_view DtypeName(Dtype dtype);  // "f32", "bf16", "bool": the spelling in IR text
std::optional<Dtype> ParseDtype(std::string_view name);
int DtypeBytes(Dtype dtype);
bool IsFloat(Dtype dtype);     // f32 f16 bf16 f64
bool IsInteger(Dtype dtype);   // signed or unsigned, not bool
bool IsUnsigned(Dtype dtype);  // u8 .. u64

// Conversions between binary16 or bfloat16 bit patterns and double; rounding is to nearest, ties to
// even.
double HalfToDouble(uint16_t bits);
uint16_t DoubleToHalf(double value);
double BFloat16ToDouble(uint16_t bits);
uint16_t DoubleToBFloat16(double value);
// The same for 8-bit floats in the layout E4M3 (OCP 8-bit Floating Point Specification): the
// largest value is 448, the bit pattern of all ones is NaN, and there are no infinities. Larger
// magnitudes saturate to 448.
double E4M3ToDouble(uint8_t bits);
uint8_t DoubleToE4M3(double value);
// The power of two by which numbers are multiplied before they are rounded to E4M3, if `greatest`
// is the greatest of their magnitudes: it brings that to 128 to 256. NaN if it is not finite.
double Float8Factor(double greatest);

}  // namespace fusec
