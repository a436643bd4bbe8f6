// Floats split into two halves (f16): x = unit (high + low / 2048). Products of split floats on
// tensor cores are as exact as float products: unit_a unit_b (high_a high_b + (high_a low_b + low_a
// high_b) / 2048). The product low_a low_b is left out; it would be below the last place of a
// float. The numbers of a row's chunk, or of a column, share a unit, a power of two that brings the
// greatest of them near the greatest half. So `high` and `low` together hold 22 bits of each number
// down to 2^-29 of the greatest one; the error of smaller numbers is at most 2^-51 of the greatest
// one.
constexpr float kLowUnit = 1.0f / 2048;

// The position among 16 halves at which number `number` of 16 is stored. Tensor cores take two
// consecutive halves of the depth in one word, but a thread that has read floats in the layout of
// mma.sync (MultiplyPiece) holds numbers that are 4 apart; so these two become neighbors.
__device__ __forceinline__ constexpr int PlaceOfHalf(int number) {
  return number / 8 * 8 + number % 4 * 2 + number % 8 / 4;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The unit of numbers whose greatest magnitude is `greatest`, and the reciprocal of the unit. With
// the unit of infinity, infinity stays infinity.
struct HalfUnit {
  float unit, reciprocal;
};
__device__ __forceinline__ HalfUnit UnitOfHalves(float greatest) {
  constexpr unsigned kExponentBits = 23, kOneExponent = 127, kUnitsBelow = 14;
  const unsigned exponent = max(__float_as_uint(greatest) >> kExponentBits, kUnitsBelow + 1);
  return {__uint_as_float((exponent - kUnitsBelow) << kExponentBits),
          __uint_as_float((2 * kOneExponent + kUnitsBelow - exponent) << kExponentBits)};
}

// Two numbers, rounded to halves and packed in a word.
__device__ __forceinline__ unsigned PackHalves(float lower, float upper) {
  unsigned halves;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(upper), "f"(lower));
  return halves;
}

// Splits two numbers into `high` and `low`, two words of two halves each.
__device__ __forceinline__ void SplitToHalves(float lower, float upper, float reciprocal,
                                              unsigned& high, unsigned& low) {
  lower *= reciprocal;
  upper *= reciprocal;
  high = PackHalves(lower, upper);
  low = PackHalves((lower - NumberIn<Arithmetic::kHalf>(high, 0)) / kLowUnit,
                   (upper - NumberIn<Arithmetic::kHalf>(high, 1)) / kLowUnit);
}

// The maximum over the four threads that share a row.
__device__ __forceinline__ float GreatestOfRow(float greatest) {
  greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 1));
  return fmaxf(greatest, __shfl_xor_sync(~0u, greatest, 2));
}

// Sums for 64 columns: `highs` of the products high x high, `crossed` of the products high x low
// and low x high.
struct SplitSums {
  float highs[8][4], crossed[8][4];
};

// Adds the sums of a chunk, whose products have completed, to sums in float. `units` are the units
// of the thread's two rows. Tensor cores round sums toward zero, so they add up only the few terms
// of a chunk; float additions round to nearest.
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
