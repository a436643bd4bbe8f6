// The 16-bit float formats. Only memory holds them; kernels compute in float.

struct Half {
  unsigned short bits;  // 1 sign, 5 exponent, 10 mantissa bits
};

struct BFloat16 {
  unsigned short bits;  // the upper half of a float
};

#ifdef __CUDACC__
__device__ __forceinline__ float ToFloat(Half x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
__device__ __forceinline__ Half ToHalf(float x) {
  Half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
__device__ __forceinline__ BFloat16 ToBFloat16(float x) {
  BFloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
#else
__device__ __forceinline__ float ToFloat(Half x) { return HalfBitsToFloat(x.bits); }
__device__ __forceinline__ Half ToHalf(float x) { return {FloatToHalfBits(x)}; }
__device__ __forceinline__ BFloat16 ToBFloat16(float x) { return {FloatToBFloat16Bits(x)}; }
#endif

__device__ __forceinline__ float ToFloat(BFloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

// The nearest value of the 16-bit format, as a float: what a cast to it means inside a kernel.
__device__ __forceinline__ float RoundToHalf(float x) { return ToFloat(ToHalf(x)); }

// The nearest value of the 16-bit format, as a float: what a cast to it means inside a kernel.
__device__ __forceinline__ float RoundToBFloat16(float x) { return ToFloat(ToBFloat16(x)); }

// The bits of a float that was rounded to the 16-bit format, and the float with the value of such
// bits.
__device__ __forceinline__ unsigned short HalfBits(float x) { return ToHalf(x).bits; }
__device__ __forceinline__ unsigned short BFloat16Bits(float x) { return ToBFloat16(x).bits; }
__device__ __forceinline__ float FloatOfHalfBits(unsigned short bits) {
  return ToFloat(Half{bits});
}
__device__ __forceinline__ float FloatOfBFloat16Bits(unsigned short bits) {
  return ToFloat(BFloat16{bits});
}
