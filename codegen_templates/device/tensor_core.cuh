// Products of small matrices on tensor cores. The elements are packed in words of 32 bits.

// The format in which tensor cores multiply.
enum class Arithmetic {
  kTf32,       // floats, rounded to 11 significant bits
  kSplitTf32,  // floats split into two TF32 numbers: three products, as exact as f32
  kSplitHalf,  // floats split into two halves (split_half.cuh)
  kHalf,
  kBFloat16,
  kFloat8,       // E4M3, four in a word
  kShortFloat8,  // E4M3 sums so short that tensor cores accumulate them alone
};

// Whether the elements in memory are floats, one in each word.
template <Arithmetic kArithmetic>
constexpr bool kIsOfFloats =
    kArithmetic == Arithmetic::kTf32 || kArithmetic == Arithmetic::kSplitTf32 ||
    kArithmetic == Arithmetic::kSplitHalf;

__device__ __forceinline__ bool IsFinite(float x) { return fabsf(x) <= 3.40282347e+38f; }

#ifdef __CUDACC__
// The nearest float with 11 significant bits, by Dekker's split with the factor 2^13 + 1. The
// result is NaN for infinities and for magnitudes above 2^114.
__device__ __forceinline__ float RoundTo11Bits(float x) {
  return __fmaf_rn(x, -8192.0f, __fmul_rn(x, 8193.0f));
}

// The name of a 16-bit format in PTX.
template <Arithmetic kArithmetic>
struct HalfType {
  static constexpr char kPtx[] = "f16";
};
template <>
struct HalfType<Arithmetic::kBFloat16> {
  static constexpr char kPtx[] = "bf16";
};

// sums += a x b for a piece of 16 x 8 sums and 8 words of depth (mma.sync). A thread holds words
// lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8 of `a`, and of column lane / 4 of
// `b`.
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

// sums += a x b for kRowPieces x kColumnPieces adjacent pieces.
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

// Rounds floats to TF32 and stores the rounding errors in `low`. Elements of other formats stay as
// they are.
template <Arithmetic kArithmetic, int kCount>
__device__ __forceinline__ void SplitWords(unsigned (&words)[kCount], unsigned (&low)[kCount]) {
  if constexpr (kIsOfFloats<kArithmetic>) {
    for (int i = 0; i < kCount; ++i) {
      const float x = __uint_as_float(words[i]);
      const float high = RoundTo11Bits(x);
      words[i] = __float_as_uint(high);
      low[i] = __float_as_uint(x - high);  // tensor cores use its upper 11 significant bits
    }
  }
}
#endif

// Element number `i` of a word, as a float; `i` is 0 for floats. For E4M3, see FromE4M3
// (float8.cuh).
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

// Two floats, rounded to the 16-bit format of the products and packed in one word.
template <Arithmetic kArithmetic>
__device__ __forceinline__ unsigned PackHalves(float low, float high) {
  constexpr bool kHalves = kArithmetic == Arithmetic::kHalf;
#ifdef __CUDACC__
  unsigned word;
  if constexpr (kHalves) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#else
  const auto bits = [](float x) { return kHalves ? FloatToHalfBits(x) : FloatToBFloat16Bits(x); };
  return bits(low) | static_cast<unsigned>(bits(high)) << 16;
#endif
}
