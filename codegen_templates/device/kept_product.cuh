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

// The sizes of a product, and the pieces of 16 x 8 sums that tensor cores make of it.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth>
struct KeptProduct {
  static constexpr int kTileLines = 16, kTiles = (kLines + kTileLines - 1) / kTileLines;
  static constexpr int kPieces = (kColumns + 7) / 8, kSteps = kDepth / 8;
  static_assert(kDepth % 8 == 0);
  static_assert(kIsOfFloats<kArithmetic>);
};

// Adds the products of 16 lines to `sums`, pieces of 8 columns in the layout of MultiplyPiece.
// Lines and columns behind the last are copies of it.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth>
__device__ __forceinline__ void MultiplyLines(
    const KeptMatrices<const float>& left, const KeptMatrices<const float>& right, int row,
    int line, float (&sums)[KeptProduct<kArithmetic, kLines, kColumns, kDepth>::kPieces][4]) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth>;
  const int lane = threadIdx.x % 32;
#ifdef __CUDACC__
  const float* upper = left.Line(row, min(line + lane / 4, kLines - 1)) + lane % 4;
  const float* lower = left.Line(row, min(line + lane / 4 + 8, kLines - 1)) + lane % 4;
#pragma unroll
  for (int step = 0; step < Product::kSteps; ++step) {
    unsigned a[4] = {__float_as_uint(upper[8 * step]), __float_as_uint(lower[8 * step]),
                     __float_as_uint(upper[8 * step + 4]), __float_as_uint(lower[8 * step + 4])};
    unsigned a_low[4];
    SplitWords<kArithmetic>(a, a_low);
#pragma unroll
    for (int piece = 0; piece < Product::kPieces; ++piece) {
      const float* column =
          right.Line(row, min(8 * piece + lane / 4, kColumns - 1)) + lane % 4 + 8 * step;
      unsigned b[2] = {__float_as_uint(column[0]), __float_as_uint(column[4])}, b_low[2];
      SplitWords<kArithmetic>(b, b_low);
      if constexpr (kArithmetic == Arithmetic::kSplitTf32) {  // small products first
        MultiplyPiece<kArithmetic>(sums[piece], a_low, b);
        MultiplyPiece<kArithmetic>(sums[piece], a, b_low);
      }
      MultiplyPiece<kArithmetic>(sums[piece], a, b);
    }
  }
#else
  for (int i = 0; i < 4 * Product::kPieces; ++i) {
    const float* a = left.Line(row, min(line + lane / 4 + i % 4 / 2 * 8, kLines - 1));
    const float* b = right.Line(row, min(i / 4 * 8 + lane % 4 * 2 + i % 2, kColumns - 1));
    for (int k = 0; k < kDepth; ++k) sums[i / 4][i % 4] += a[k] * b[k];
  }
#endif
}

// Makes the products of `rows` rows, by all warps of a block of kThreads threads.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, int kThreads>
__device__ __forceinline__ void MultiplyKeptMatrices(const KeptMatrices<const float>& left,
                                                     const KeptMatrices<const float>& right,
                                                     const KeptMatrices<float>& sums, int rows) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth>;
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < rows * Product::kTiles; i += kThreads / 32) {
    const int row = i / Product::kTiles, first_line = i % Product::kTiles * Product::kTileLines;
    float pieces[Product::kPieces][4] = {};
    MultiplyLines<kArithmetic, kLines, kColumns, kDepth>(left, right, row, first_line, pieces);
    bool are_finite = true;
#pragma unroll
    for (int e = 0; e < 4 * Product::kPieces; ++e) are_finite &= IsFinite(pieces[e / 4][e % 4]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int line = first_line + lane / 4 + half * 8;
      float* const place = sums.Line(row, line) + lane % 4 * 2;
      if (line >= kLines) continue;
#pragma unroll
      for (int e = 0; e < 2 * Product::kPieces; ++e) {
        const int column = e / 2 * 8 + e % 2;  // of the first lane
        if (column + 6 < kColumns || column + lane % 4 * 2 < kColumns)
          place[column] = pieces[e / 2][half * 2 + e % 2];
      }
    }
    if (!are_finite) {  // infinity cannot be split: such sums are made term by term
#pragma unroll 1
      for (int e = 0; e < 4 * Product::kPieces; ++e) {
        const int line = first_line + lane / 4 + e % 4 / 2 * 8;
        const int column = e / 4 * 8 + lane % 4 * 2 + e % 2;
        if (line >= kLines || column >= kColumns) continue;
        float sum = 0.0f;
#pragma unroll 1
        for (int k = 0; k < kDepth; ++k)
          sum += left.Line(row, line)[k] * right.Line(row, column)[k];
        sums.Line(row, line)[column] = sum;
      }
    }
  }
}
