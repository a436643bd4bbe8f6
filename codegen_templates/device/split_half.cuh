// Floats as sums of two halves, x = unit (high + low / 2048), whose products on tensor cores are as
// exact as those of floats: unit_a unit_b (high high + (high low + low high) / 2048). The product
// of both lows would be below a float's last place. Neighbours in a row share the unit, a power of
// two that brings the greatest of them near the greatest half. So `high` and `low` together have 22
// bits of each number down to 2^-29 of the greatest one, and what is smaller is off by 2^-51 of
// that at most.
constexpr float kLowUnit = 1.0f / 2048;

// Which of 16 halves a number is. Tensor cores want neighbours of the depth in a word; but a thread
// that has read floats as mma.sync of floats wants them (MultiplyPiece) has numbers 4 apart.
__device__ __forceinline__ constexpr int PlaceOfHalf(int number) {
  return number / 8 * 8 + number % 4 * 2 + number % 8 / 4;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The unit of numbers of which `greatest` is the greatest magnitude, and its reciprocal. That of
// infinity leaves infinity what it is.
struct HalfUnit {
  float unit, reciprocal;
};
__device__ __forceinline__ HalfUnit UnitOfHalves(float greatest) {
  constexpr unsigned kExponentBits = 23, kOneExponent = 127, kUnitsBelow = 14;
  const unsigned exponent = max(__float_as_uint(greatest) >> kExponentBits, kUnitsBelow + 1);
  return {__uint_as_float((exponent - kUnitsBelow) << kExponentBits),
          __uint_as_float((2 * kOneExponent + kUnitsBelow - exponent) << kExponentBits)};
}

// Two numbers as halves in a word.
__device__ __forceinline__ unsigned PackHalves(float lower, float upper) {
  unsigned halves;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(upper), "f"(lower));
  return halves;
}

// Splits two numbers into two words of halves.
__device__ __forceinline__ void SplitToHalves(float lower, float upper, float reciprocal,
                                              unsigned& high, unsigned& low) {
  lower *= reciprocal;
  upper *= reciprocal;
  high = PackHalves(lower, upper);
  low = PackHalves((lower - NumberIn<Arithmetic::kHalf>(high, 0)) / kLowUnit,
                   (upper - NumberIn<Arithmetic::kHalf>(high, 1)) / kLowUnit);
}

// The greatest magnitude of the four threads that share a row.
__device__ __forceinline__ float GreatestOfRow(float greatest) {
  greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 1));
  return fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 2));
}

// Sums of products for 64 columns: of two highs, and of a high and a low.
struct SplitSums {
  float highs[8][4], crossed[8][4];
};

// Adds sums, whose products have ended, to those of floats. `units` are those of the thread's two
// rows. Tensor cores round toward zero, so they add up few terms, and their sums are added to
// nearest.
__device__ __forceinline__ void AddSplitSums(SplitSums& added, const float (&units)[2],
                                             float (&sums)[8][4]) {
  HoldSums(added.highs);
  HoldSums(added.crossed);
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float sum = __fmaf_rn(added.crossed[i / 4][i % 4], kLowUnit, added.highs[i / 4][i % 4]);
    sums[i / 4][i % 4] = __fmaf_rn(sum, units[i % 4 / 2], sums[i / 4][i % 4]);
  }
}
#endif
