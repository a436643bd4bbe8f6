// Products of small matrices on tensor cores, whose elements are packed in words of 32 bits.

// What is multiplied, and how.
enum class Arithmetic {
  kTf32,       // floats, rounded to 11 bits
  kSplitTf32,  // floats as the sum of two such numbers: three products, as exact as those of floats
  kSplitHalf,  // the same of two halves
  kHalf,
  kBFloat16,
  kFloat8,       // E4M3, four in a word
  kShortFloat8,  // the same, of sums so short that tensor cores add them up
};

// Whether elements are floats, one in a word.
template <Arithmetic kArithmetic>
constexpr bool kIsOfFloats =
    kArithmetic == Arithmetic::kTf32 || kArithmetic == Arithmetic::kSplitTf32 ||
    kArithmetic == Arithmetic::kSplitHalf;

__device__ __forceinline__ bool IsFinite(float x) { return fabsf(x) <= 3.40282347e+38f; }

#ifdef __CUDACC__
// The nearest float with 11 significant bits (Dekker's split, with 2^13 + 1). The result is NaN for
// infinities and for numbers above 2^114.
__device__ __forceinline__ float RoundTo11Bits(float x) {
  return __fmaf_rn(x, -8192.0f, __fmul_rn(x, 8193.0f));
}

// PTX's name of a 16-bit format.
template <Arithmetic kArithmetic>
struct HalfType {
  static constexpr char kPtx[] = "f16";
};
template <>
struct HalfType<Arithmetic::kBFloat16> {
  static constexpr char kPtx[] = "bf16";
};

// sums += a x b for a piece of 16 x 8 sums and 8 words of depth (mma.sync). A thread has rows
// lane / 4 and lane / 4 + 8 of `a`, column lane / 4 of `b`, and words lane % 4 and lane % 4 + 4 of
// each.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void MultiplyPiece(float (&sums)[4], const unsigned (&a)[4],
                                              const unsigned (&b)[2]) {
  if constexpr (kIsOfFloats<kArithmetic>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.%10.%10.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
          "C"(HalfType<kArithmetic>::kPtx));
  }
}

// sums += a x b for kRowPieces x kColumnPieces pieces side by side.
template <Arithmetic kArithmetic, int kRowPieces, int kColumnPieces>
__device__ __forceinline__ void MultiplyPieces(float (&sums)[kRowPieces][kColumnPieces][4],
                                               const unsigned (&a)[kRowPieces][4],
                                               const unsigned (&b)[kColumnPieces][2]) {
#pragma unroll
  for (int i = 0; i < kRowPieces; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnPieces; ++j) MultiplyPiece<kArithmetic>(sums[i][j], a[i], b[j]);
  }
}

// Rounds floats to TF32 and stores what that loses in `low`. Other elements stay as they are.
template <Arithmetic kArithmetic, int kCount>
__device__ __forceinline__ void SplitWords(unsigned (&words)[kCount], unsigned (&low)[kCount]) {
  if constexpr (kIsOfFloats<kArithmetic>) {
    for (int i = 0; i < kCount; ++i) {
      const float x = __uint_as_float(words[i]);
      const float high = RoundTo11Bits(x);
      words[i] = __float_as_uint(high);
      low[i] = __float_as_uint(x - high);  // tensor cores read 11 bits of it
    }
  }
}
#endif

// Element number `i` of a word, as a float; `i` is 0 for floats. E4M3 has FromE4M3 (float8.cuh).
template <Arithmetic kArithmetic>
__device__ __forceinline__ float NumberIn(unsigned word, int i) {
  const unsigned bits = word >> 16 * i & 0xffffu;
  if constexpr (kArithmetic == Arithmetic::kHalf) {
#ifdef __CUDACC__
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(static_cast<unsigned short>(bits)));
    return number;
#else
    return HalfBitsToFloat(static_cast<unsigned short>(bits));
#endif
  }
  return __uint_as_float(kArithmetic == Arithmetic::kBFloat16 ? bits << 16 : word);
}
