// Products sums = left x right^T of small matrices in shared memory, one for each row that a block
// owns. They are kLines x kColumns, kLines x kDepth and kColumns x kDepth.

// Where the matrices of one operand lie: that of the first row, the distance from a line to the
// next (`pitch`), and the distance from a row's matrix to the next row's (`places`).
template <class Number>
struct KeptMatrices {
  Number* first;
  int pitch, places;

  __device__ __forceinline__ Number* Line(int row, int line) const {
    return first + row * places + line * pitch;
  }
};

// A number that is kept, which may be one of halves.
__device__ __forceinline__ float KeptNumber(float x) { return x; }
template <class Half>
__device__ __forceinline__ float KeptNumber(Half x) {
  return ToFloat(x);
}

// The sizes of a product, and the pieces of 16 x 8 sums that tensor cores make of it. A warp makes
// up to kMostPieces of them side by side.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth>
struct KeptProduct {
  static constexpr int kTileLines = 16, kTiles = (kLines + kTileLines - 1) / kTileLines;
  static constexpr int kMostPieces = 8, kAllPieces = (kColumns + 7) / 8;
  static constexpr int kGroups = (kAllPieces + kMostPieces - 1) / kMostPieces;
  static constexpr int kPieces = (kAllPieces + kGroups - 1) / kGroups;
  static constexpr int kSteps = kDepth / 8, kChunkSteps = 8;
  static_assert(kDepth % 8 == 0);
  static_assert(kIsOfFloats<kArithmetic>);
};

// Adds the products of 16 lines to `sums`, pieces of 8 columns in the layout of MultiplyPiece.
// Lines and columns behind the last are copies of it. Tensor cores round sums toward zero, so that
// split floats are summed from zero again and again, and then added in float, to nearest.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, class Right>
__device__ __forceinline__ void MultiplyLines(
    const KeptMatrices<const float>& left, const KeptMatrices<const Right>& right, int row,
    int line, int first_column,
    float (&sums)[KeptProduct<kArithmetic, kLines, kColumns, kDepth>::kPieces][4]) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth>;
  const int lane = threadIdx.x % 32;
#ifdef __CUDACC__
  const float* upper = left.Line(row, min(line + lane / 4, kLines - 1)) + lane % 4;
  const float* lower = left.Line(row, min(line + lane / 4 + 8, kLines - 1)) + lane % 4;
  const auto add = [&](int step, float(&to)[Product::kPieces][4]) {
    unsigned a[4] = {__float_as_uint(upper[8 * step]), __float_as_uint(lower[8 * step]),
                     __float_as_uint(upper[8 * step + 4]), __float_as_uint(lower[8 * step + 4])};
    unsigned a_low[4];
    SplitWords<kArithmetic>(a, a_low);
#pragma unroll
    for (int piece = 0; piece < Product::kPieces; ++piece) {
      const Right* column =
          right.Line(row, min(first_column + 8 * piece + lane / 4, kColumns - 1)) + lane % 4 +
          8 * step;
      unsigned b[2] = {__float_as_uint(KeptNumber(column[0])),
                       __float_as_uint(KeptNumber(column[4]))};
      unsigned b_low[2];
      SplitWords<kArithmetic>(b, b_low);
      if constexpr (kArithmetic == Arithmetic::kSplitTf32) {  // small products first
        MultiplyPiece<kArithmetic>(to[piece], a_low, b);
        MultiplyPiece<kArithmetic>(to[piece], a, b_low);
      }
      MultiplyPiece<kArithmetic>(to[piece], a, b);
    }
  };
  if constexpr (kArithmetic == Arithmetic::kSplitTf32 && Product::kSteps > Product::kChunkSteps) {
#pragma unroll 1
    for (int chunk = 0; chunk < Product::kSteps; chunk += Product::kChunkSteps) {
      float chunk_sums[Product::kPieces][4] = {};
#pragma unroll
      for (int step = 0; step < Product::kChunkSteps; ++step) {
        if (chunk + step < Product::kSteps) add(chunk + step, chunk_sums);
      }
#pragma unroll
      for (int e = 0; e < 4 * Product::kPieces; ++e) sums[e / 4][e % 4] += chunk_sums[e / 4][e % 4];
    }
  } else {
#pragma unroll 8
    for (int step = 0; step < Product::kSteps; ++step) add(step, sums);
  }
#else
  for (int i = 0; i < 4 * Product::kPieces; ++i) {
    const float* a = left.Line(row, min(line + lane / 4 + i % 4 / 2 * 8, kLines - 1));
    const Right* b =
        right.Line(row, min(first_column + i / 4 * 8 + lane % 4 * 2 + i % 2, kColumns - 1));
    for (int k = 0; k < kDepth; ++k) sums[i / 4][i % 4] += a[k] * KeptNumber(b[k]);
  }
#endif
}

// Makes the products of `rows` rows, by all warps of a block of kThreads threads.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, int kThreads,
          class Right = float>
__device__ __forceinline__ void MultiplyKeptMatrices(const KeptMatrices<const float>& left,
                                                     const KeptMatrices<const Right>& right,
                                                     const KeptMatrices<float>& sums, int rows) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth>;
  const int lane = threadIdx.x % 32;
  constexpr int kUnits = Product::kTiles * Product::kGroups;  // of a row, for a warp each
  for (int i = threadIdx.x / 32; i < rows * kUnits; i += kThreads / 32) {
    const int row = i / kUnits;
    const int first_line = i % kUnits / Product::kGroups * Product::kTileLines;
    const int first_column = i % Product::kGroups * (8 * Product::kPieces);
    float pieces[Product::kPieces][4] = {};
    MultiplyLines<kArithmetic, kLines, kColumns, kDepth>(left, right, row, first_line, first_column,
                                                         pieces);
    bool are_finite = true;
#pragma unroll
    for (int e = 0; e < 4 * Product::kPieces; ++e) are_finite &= IsFinite(pieces[e / 4][e % 4]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int line = first_line + lane / 4 + half * 8;
      if (line >= kLines) continue;
#pragma unroll
      for (int e = 0; e < 2 * Product::kPieces; ++e) {
        const int column = first_column + e / 2 * 8 + lane % 4 * 2 + e % 2;
        if (kColumns % (8 * Product::kPieces) == 0 || column < kColumns)
          sums.Line(row, line)[column] = pieces[e / 2][half * 2 + e % 2];
      }
    }
    if (!are_finite) {  // infinity cannot be split: such sums are made term by term
#pragma unroll 1
      for (int e = 0; e < 4 * Product::kPieces; ++e) {
        const int line = first_line + lane / 4 + e % 4 / 2 * 8;
        const int column = first_column + e / 4 * 8 + lane % 4 * 2 + e % 2;
        if (line >= kLines || column >= kColumns) continue;
        float sum = 0.0f;
#pragma unroll 1
        for (int k = 0; k < kDepth; ++k)
          sum += left.Line(row, line)[k] * KeptNumber(right.Line(row, column)[k]);
        sums.Line(row, line)[column] = sum;
      }
    }
  }
}
