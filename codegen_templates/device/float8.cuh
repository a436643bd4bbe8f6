// The value of an 8-bit float in the format E4M3: 1 sign bit, 4 exponent bits (bias 7) and 3
// mantissa bits. If all exponent and mantissa bits are ones, it is NaN.
__device__ __forceinline__ float FromE4M3(unsigned char bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // through a half, which is exact as well
  float value;
  asm("{\n"
      "  .reg .b32 pair;\n"
      "  .reg .b16 low, high;\n"
      "  cvt.rn.f16x2.e4m3x2 pair, %1;\n"
      "  mov.b32 {low, high}, pair;\n"
      "  cvt.f32.f16 %0, low;\n"
      "}"
      : "=f"(value)
      : "h"(static_cast<unsigned short>(bits)));
  return value;
#else
  const unsigned sign = bits & 0x80u, magnitude = bits & 0x7fu;
  // As a float, whose exponent bias is 127, these bits are 2^120 times too small. The product is
  // exact for subnormals, too. All bits below the sign are set for NaN, without a branch.
  const float finite = __uint_as_float(sign << 24 | magnitude << 20) * 0x1p120f;
  const unsigned nan = -static_cast<unsigned>(magnitude == 0x7fu) & 0x7fffffffu;
  return __uint_as_float(__float_as_uint(finite) | nan);
#endif
}

// The nearest E4M3 number, ties to even. Magnitudes above 448, the greatest E4M3 number, become
// 448.
__device__ __forceinline__ unsigned char ToE4M3(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return static_cast<unsigned char>(pair);
#else
  constexpr unsigned kNan = 0x7fu, kGreatest = 0x7eu, kBits = 20, kBiases = (127u - 7u) << 3;
  const unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80u;
  const unsigned magnitude = bits & 0x7fffffffu;
  const float absolute = __uint_as_float(magnitude);
  unsigned code;
  if (!(absolute <= 3.40282347e+38f)) {
    code = magnitude > 0x7f800000u ? kNan : kGreatest;
  } else if (absolute >= 448.0f) {
    code = kGreatest;
  } else if (absolute < 0x1p-6f) {
    code = static_cast<unsigned>(rintf(absolute * 0x1p9f));  // subnormals are 2^-9 apart
  } else {
    code = (magnitude + ((1u << (kBits - 1)) - 1) + (magnitude >> kBits & 1)) >> kBits;
    code -= kBiases;
  }
  return static_cast<unsigned char>(sign | code);
#endif
}

// The factor that numbers are multiplied by before they are rounded to E4M3, where `greatest` is
// their greatest magnitude: the power of two that brings it to 128..256. NaN if `greatest` is not
// finite.
__device__ __forceinline__ float Float8Factor(float greatest) {
  constexpr unsigned kExponentBits = 23, kOneExponent = 127, kBits = 7;
  if (!(fabsf(greatest) <= 3.40282347e+38f)) return __uint_as_float(0x7fffffffu);
  const unsigned exponent = __float_as_uint(fabsf(greatest)) >> kExponentBits;
  // The exponent of the factor, limited so that the factor's reciprocal is a normal float as well.
  const unsigned of_factor = 2 * kOneExponent + kBits - (exponent > kBits ? exponent : kBits + 1);
  return __uint_as_float(of_factor << kExponentBits);
}
