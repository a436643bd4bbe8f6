// Products sums = left x right^T of small matrices in shared memory, one product for each row of a
// block. The shapes are: `left` kLines x kDepth, `right` kColumns x kDepth, `sums` kLines x
// kColumns.

// The location of the matrices of one operand: `first` points to the matrix of the first row,
// `pitch` is the distance between the lines of a matrix, and `places` the distance between the
// matrices of consecutive rows, both in elements.
template <class Number>
struct KeptMatrices {
  Number* first;
  int pitch, places;

  __device__ __forceinline__ Number* Line(int row, int line) const {
    return first + row * places + line * pitch;
  }
};

// A number in shared memory, as a float. It may be stored in a 16-bit format.
__device__ __forceinline__ float KeptNumber(float x) { return x; }
template <class Half>
__device__ __forceinline__ float KeptNumber(Half x) {
  return ToFloat(x);
}

// The sizes of the products of kRows rows, and how they are divided into pieces of 16 x 8 sums. A
// warp computes up to kMostPieces adjacent pieces, fewer if some of kSharingWarps warps would have
// no work otherwise. With more warps, too much of `left` would be read and rounded repeatedly.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, int kRows>
struct KeptProduct {
  static constexpr int kTileLines = 16, kTiles = (kLines + kTileLines - 1) / kTileLines;
  static constexpr int kMostPieces = 8, kAllPieces = (kColumns + 7) / 8, kSharingWarps = 8;
  static constexpr int kAllTiles = kRows * kTiles;
  static constexpr int kWarpsOfTile = kAllTiles < kSharingWarps ? kSharingWarps / kAllTiles : 1;
  static constexpr int kFewestGroups = (kAllPieces + kMostPieces - 1) / kMostPieces;
  static constexpr int kMostGroups = kFewestGroups < kWarpsOfTile ? kWarpsOfTile : kFewestGroups;
  static constexpr int kPieces = (kAllPieces + kMostGroups - 1) / kMostGroups;
  static constexpr int kGroups = (kAllPieces + kPieces - 1) / kPieces;
  static constexpr int kSteps = kDepth / 8, kChunkSteps = 8;
  static_assert(kDepth % 8 == 0);
  static_assert(kIsOfFloats<kArithmetic>);
};

#ifdef __CUDACC__
// Loads four matrices of 8 lines of 4 floats from shared memory. Lane i passes the address of line
// i % 8 of matrix i / 8, a multiple of 16 bytes, and receives word i % 4 of line i / 4 of each
// matrix.
__device__ __forceinline__ void LoadFourMatrices(unsigned (&words)[4], const float* line) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(line));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

// Reads 16 lines of `left` in the layout of MultiplyPiece, 8 words of depth per step.
template <int kLines>
struct LeftLines {
  const float* line;

  __device__ __forceinline__ LeftLines(const KeptMatrices<const float>& left, int row, int first)
      : line(left.Line(row, min(first + static_cast<int>(threadIdx.x % 16), kLines - 1)) +
             threadIdx.x % 32 / 16 * 4) {}
  __device__ __forceinline__ void Read(int step, unsigned (&words)[4]) const {
    LoadFourMatrices(words, line + 8 * step);
  }
};

// Reads kPieces times 8 lines of `right`, which are the columns of the product.
template <int kColumns, int kPieces, class Right>
struct RightLines {
  const Right* lines[kPieces];

  __device__ __forceinline__ RightLines(const KeptMatrices<const Right>& right, int row,
                                        int first) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      lines[piece] = right.Line(row, min(first + 8 * piece + static_cast<int>(threadIdx.x % 32 / 4),
                                         kColumns - 1)) +
                     threadIdx.x % 4;
    }
  }
  __device__ __forceinline__ void Read(int step, unsigned (&words)[kPieces][2]) const {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      words[piece][0] = __float_as_uint(KeptNumber(lines[piece][8 * step]));
      words[piece][1] = __float_as_uint(KeptNumber(lines[piece][8 * step + 4]));
    }
  }
};
// For floats, one LoadFourMatrices reads two pieces.
template <int kColumns, int kPieces>
struct RightLines<kColumns, kPieces, float> {
  static constexpr int kPairs = (kPieces + 1) / 2;
  const float* lines[kPairs];

  __device__ __forceinline__ RightLines(const KeptMatrices<const float>& right, int row,
                                        int first) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const int column = first + 16 * pair + lane / 16 * 8 + lane % 8;
      lines[pair] = right.Line(row, min(column, kColumns - 1)) + lane / 8 % 2 * 4;
    }
  }
  __device__ __forceinline__ void Read(int step, unsigned (&words)[kPieces][2]) const {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      unsigned both[4];
      LoadFourMatrices(both, lines[pair] + 8 * step);
      words[2 * pair][0] = both[0], words[2 * pair][1] = both[1];
      if (2 * pair + 1 < kPieces)
        words[2 * pair + 1][0] = both[2], words[2 * pair + 1][1] = both[3];
    }
  }
};
#endif

// Adds the products of 16 lines to `sums`, pieces of 8 columns in the layout of MultiplyPiece.
// Lines and columns beyond the last one are copies of it. Tensor cores round sums toward zero, so
// split floats are summed from zero in chunks, and the sums of a chunk are then added in float,
// which rounds to nearest.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, int kRows,
          bool kRoundedRight, class Right>
__device__ __forceinline__ void MultiplyLines(
    const KeptMatrices<const float>& left, const KeptMatrices<const Right>& right, int row,
    int line, int first_column,
    float (&sums)[KeptProduct<kArithmetic, kLines, kColumns, kDepth, kRows>::kPieces][4]) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth, kRows>;
  constexpr int kPieces = Product::kPieces;
#ifdef __CUDACC__
  const LeftLines<kLines> left_lines(left, row, line);
  const RightLines<kColumns, kPieces, Right> right_lines(right, row, first_column);
  const auto add = [&](int step, float(&to)[kPieces][4]) {
    unsigned a[4], a_low[4], b[kPieces][2];
    left_lines.Read(step, a);
    right_lines.Read(step, b);
    SplitWords<kArithmetic>(a, a_low);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      unsigned b_low[2];
      if constexpr (!kRoundedRight) SplitWords<kArithmetic>(b[piece], b_low);
      if constexpr (kArithmetic == Arithmetic::kSplitTf32) {  // small products first
        MultiplyPiece<kArithmetic>(to[piece], a_low, b[piece]);
        MultiplyPiece<kArithmetic>(to[piece], a, b_low);
      }
      MultiplyPiece<kArithmetic>(to[piece], a, b[piece]);
    }
  };
  if constexpr (kArithmetic == Arithmetic::kSplitTf32 && Product::kSteps > Product::kChunkSteps) {
#pragma unroll 1
    for (int chunk = 0; chunk < Product::kSteps; chunk += Product::kChunkSteps) {
      float chunk_sums[kPieces][4] = {};
#pragma unroll
      for (int step = 0; step < Product::kChunkSteps; ++step) {
        if (chunk + step < Product::kSteps) add(chunk + step, chunk_sums);
      }
#pragma unroll
      for (int e = 0; e < 4 * kPieces; ++e) sums[e / 4][e % 4] += chunk_sums[e / 4][e % 4];
    }
  } else {
#pragma unroll 8
    for (int step = 0; step < Product::kSteps; ++step) add(step, sums);
  }
#else
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 4 * kPieces; ++i) {
    const float* a = left.Line(row, min(line + lane / 4 + i % 4 / 2 * 8, kLines - 1));
    const Right* b =
        right.Line(row, min(first_column + i / 4 * 8 + lane % 4 * 2 + i % 2, kColumns - 1));
    for (int k = 0; k < kDepth; ++k) sums[i / 4][i % 4] += a[k] * KeptNumber(b[k]);
  }
#endif
}

// Computes the products of the first `rows` of the block's kRows rows, with all warps of its
// kThreads threads. kRoundedRight says that the numbers of `right` are already rounded to TF32.
// Lines of floats must begin at multiples of 16 bytes.
template <Arithmetic kArithmetic, int kLines, int kColumns, int kDepth, int kRows, int kThreads,
          bool kRoundedRight = false, class Right = float>
__device__ __forceinline__ void MultiplyKeptMatrices(const KeptMatrices<const float>& left,
                                                     const KeptMatrices<const Right>& right,
                                                     const KeptMatrices<float>& sums, int rows) {
  using Product = KeptProduct<kArithmetic, kLines, kColumns, kDepth, kRows>;
  const int lane = threadIdx.x % 32;
  constexpr int kUnits = Product::kTiles * Product::kGroups;  // of work per row, one per warp
  for (int i = threadIdx.x / 32; i < rows * kUnits; i += kThreads / 32) {
    const int row = i / kUnits;
    const int first_line = i % kUnits / Product::kGroups * Product::kTileLines;
    const int first_column = i % Product::kGroups * (8 * Product::kPieces);
    float pieces[Product::kPieces][4] = {};
    MultiplyLines<kArithmetic, kLines, kColumns, kDepth, kRows, kRoundedRight>(
        left, right, row, first_line, first_column, pieces);
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
    if (!are_finite) {  // infinity cannot be split: such sums are computed term by term
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
