// kCount 16-bit weights in words, two in each.
template <int kCount>
using PairsOfWeights = unsigned[kCount / 2];

// The weights (code - zero) * scale in half precision, rounded after each op, of kCount 4-bit
// codes, each two of which share a byte. Of each 8 weights, number i and number i + 4 share a word,
// which saves shifts. `zero` is an integer from 0 to 1023.
template <int kCount>
__device__ __forceinline__ void DequantizeInt4(const Vector<unsigned char, kCount / 2>& packed,
                                               float zero, float scale,
                                               PairsOfWeights<kCount>& weights) {
  static_assert(kCount % 8 == 0);
  unsigned words[kCount / 8];
  ToWords(packed, words);
#ifdef __CUDACC__
  // 1024, whose last bits count as ones, twice. Differences of integers from there to 2047 are
  // exact.
  constexpr unsigned kBase = 0x64006400;
  const unsigned zeros = PackHalves<Arithmetic::kHalf>(1024.0f + zero, 1024.0f + zero),
                 scales = PackHalves<Arithmetic::kHalf>(scale, scale);
#endif
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    unsigned pair = words[i / 4] >> i % 4 * 4;
#ifdef __CUDACC__
    // (pair & 0x000f000f) | kBase in one instruction
    asm("lop3.b32 %0, %0, 0x000f000f, %1, 0xea;" : "+r"(pair) : "r"(kBase));
    asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(zeros));
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(scales));
    weights[i] = pair;
#else
    const float low = pair & 15, high = pair >> 16 & 15;
    weights[i] = PackHalves<Arithmetic::kHalf>((low - zero) * scale, (high - zero) * scale);
#endif
  }
}
