// The value of a float of 8 bits in the layout E4M3: a sign, 4 bits of exponent (bias 7) and 3 of
// mantissa; all ones are NaN.
__device__ __forceinline__ float FromE4M3(unsigned char bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // by way of a half, which is exact as well
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
  // The bits of a float that is 2^120 times smaller, whose bias is 127; exact for subnormals, too.
  const float scaled = __uint_as_float(sign << 24 | magnitude << 20);
  return magnitude == 0x7fu ? __uint_as_float(0x7fffffffu) : scaled * 0x1p120f;
#endif
}
