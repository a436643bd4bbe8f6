// The two products of attention (attention_tile.cuh), computed by single warps with mma.sync.

#ifdef __CUDACC__
// Whether all numbers of the thread are finite: neither infinite nor NaN.
template <int kPieces>
__device__ __forceinline__ bool AreFinite(const float (&numbers)[kPieces][4]) {
  bool finite = true;
#pragma unroll
  for (int i = 0; i < 4 * kPieces; ++i) finite &= IsFinite(numbers[i / 4][i % 4]);
  return finite;
}

// Loads four matrices of 8 x 8 halves from shared memory. Eight lanes pass the addresses of the
// rows of each matrix. If kTurned, the matrices are transposed, so that a word holds halves of two
// rows.
template <bool kTurned>
__device__ __forceinline__ void LoadMatrices(unsigned (&first)[2], unsigned (&second)[2],
                                             const unsigned* row) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTurned) {
    asm("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
        : "r"(address)
        : "memory");
  } else {
    asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
        : "r"(address)
        : "memory");
  }
}

// Reads the words of each key of a tile that step `step` along the depth multiplies.
template <class Shape>
__device__ __forceinline__ void ReadKeys(const typename Shape::Tile& tile, int step,
                                         unsigned (&words)[Shape::kKeyPieces][2]) {
  const int lane = threadIdx.x % 32, first = FirstKeyOfWarp<Shape>();
#pragma unroll
  for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
    if constexpr (kIsOfFloats<Shape::kArithmetic>) {
      const unsigned* key = tile.keys.at(first + 8 * piece + lane / 4, 8 * step);
      words[piece][0] = key[lane % 4];
      words[piece][1] = key[lane % 4 + 4];
    } else if (piece % 2 == 0) {
      const int key = first + 8 * piece + lane / 16 * 8 + lane % 8;
      LoadMatrices<false>(words[piece], words[piece + 1],
                          tile.keys.at(key, 8 * step + lane / 8 % 2 * 4));
    }
  }
}

// sums += weights x values for 16-bit formats.
template <class Shape>
__device__ __forceinline__ void AddHalves(const typename Shape::Tile& tile,
                                          const float (&weights)[Shape::kKeyPieces][4],
                                          float (&sums)[1][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
#pragma unroll
  for (int step = 0; step < Shape::kKeyPieces / 2; ++step) {
    unsigned a[1][4], b[Shape::kColumnPieces][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = weights[2 * step + i / 2];
      a[0][i] = PackHalves<kArithmetic>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
    const int lane = threadIdx.x % 32;
    const int key = FirstKeyOfWarp<Shape>() + 16 * step + lane % 16;
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; piece += 2) {
      LoadMatrices<true>(b[piece], b[piece + 1], tile.values.at(key, 4 * (piece + lane / 16)));
    }
    MultiplyPieces<kArithmetic>(sums, a, b);
  }
}

// sums += weights x values for floats, for kPieces pieces of 8 columns, from piece kFirst on.
template <class Shape, int kFirst, int kPieces>
__device__ __forceinline__ void AddFloatPieces(const typename Shape::Tile& tile,
                                               const float (&weights)[Shape::kKeyPieces][4],
                                               float (&sums)[1][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
  float added[1][kPieces][4] = {};  // summed apart, as tensor cores round toward zero
#pragma unroll
  for (int step = 0; step < Shape::kKeyPieces; ++step) {
    // A sum does not depend on the order of the keys. In the places of keys 0 to 7, tensor cores
    // get keys 0, 2, 4, 6, 1, 3, 5, 7: the order in which the threads hold the weights.
    unsigned a[1][4], a_low[1][4], b[kPieces][2], b_low[kPieces][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[0][i] = __float_as_uint(weights[step][i % 2 * 2 + i / 2]);
    SplitWords<kArithmetic>(a[0], a_low[0]);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int key = FirstKeyOfWarp<Shape>() + 8 * step + threadIdx.x % 4 * 2;
      const int column = 8 * (kFirst + piece) + threadIdx.x % 32 / 4;
      b[piece][0] = *tile.values.at(key, column);
      b[piece][1] = *tile.values.at(key + 1, column);
      SplitWords<kArithmetic>(b[piece], b_low[piece]);
    }
    if constexpr (kArithmetic == Arithmetic::kSplitTf32) {
      MultiplyPieces<kArithmetic>(added, a_low, b);
      MultiplyPieces<kArithmetic>(added, a, b_low);
    }
    MultiplyPieces<kArithmetic>(added, a, b);
  }
  if (!__all_sync(~0u, AreFinite(added[0])))
    return AddPlainly<Shape, kFirst, kPieces>(tile, weights, sums);
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int place = 0; place < 4; ++place) {
      sums[0][kFirst + piece][place] += added[0][piece][place];
    }
  }
}

// sums += weights x values for floats. If values are long, this happens in two halves, because the
// sums of a tile, which are computed apart, take as many registers as `sums`.
template <class Shape>
__device__ __forceinline__ void AddFloats(const typename Shape::Tile& tile,
                                          const float (&weights)[Shape::kKeyPieces][4],
                                          float (&sums)[1][Shape::kColumnPieces][4]) {
  constexpr int kMostPieces = 16, kAll = Shape::kColumnPieces;
  if constexpr (kAll <= kMostPieces) {
    AddFloatPieces<Shape, 0, kAll>(tile, weights, sums);
  } else {
    AddFloatPieces<Shape, 0, kAll / 2>(tile, weights, sums);
    AddFloatPieces<Shape, kAll / 2, kAll - kAll / 2>(tile, weights, sums);
  }
}
#endif

// A choice for AttentionShape::Products: each warp multiplies by itself; queries, keys and values
// are in padded rows of shared memory.
struct WarpProducts {
  template <int kRows, int kWords>
  using Rows = PaddedRows<kRows, kWords>;

  // A thread's share of its warp's queries, in the layout of the left operand of mma.sync. Long
  // queries (kAreKept is false) are read from shared memory at every step instead.
  template <class Shape>
  struct Queries {
    static constexpr bool kAreKept = Shape::kSteps <= 16;
    unsigned words[kAreKept ? Shape::kSteps : 1][4];
  };

#ifdef __CUDACC__
  // Reads the words of each query that step `step` along the depth multiplies.
  template <class Shape>
  __device__ __forceinline__ static void ReadQueries(const typename Shape::Memory& memory, int step,
                                                     unsigned (&words)[4]) {
    for (int i = 0; i < 4; ++i) {
      const int word = 8 * step + threadIdx.x % 4 + i / 2 * 4;
      words[i] = *memory.queries.at(QueryInTile<Shape>(i % 2 * 2), word);
    }
  }

  template <class Shape>
  __device__ __forceinline__ static Queries<Shape> TakeQueries(
      const typename Shape::Memory& memory) {
    Queries<Shape> queries;
    if constexpr (Queries<Shape>::kAreKept) {
      for (int step = 0; step < Shape::kSteps; ++step) {
        ReadQueries<Shape>(memory, step, queries.words[step]);
      }
    }
    return queries;
  }

  // scores = queries x keys^T
  template <class Shape>
  __device__ __forceinline__ static void MultiplyKeys(const typename Shape::Memory& memory,
                                                      const typename Shape::Tile& tile,
                                                      const Queries<Shape>& queries,
                                                      float (&scores)[Shape::kKeyPieces][4]) {
    constexpr Arithmetic kArithmetic = Shape::kArithmetic;
    float sums[1][Shape::kKeyPieces][4] = {};
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      unsigned a[1][4], a_low[1][4], b[Shape::kKeyPieces][2], b_low[Shape::kKeyPieces][2];
      if constexpr (Queries<Shape>::kAreKept) {
        for (int i = 0; i < 4; ++i) a[0][i] = queries.words[step][i];
      } else {
        ReadQueries<Shape>(memory, step, a[0]);
      }
      SplitWords<kArithmetic>(a[0], a_low[0]);
      ReadKeys<Shape>(tile, step, b);
#pragma unroll
      for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
        SplitWords<kArithmetic>(b[piece], b_low[piece]);
      }
      if constexpr (kArithmetic == Arithmetic::kSplitTf32) {
        MultiplyPieces<kArithmetic>(sums, a_low, b);
        MultiplyPieces<kArithmetic>(sums, a, b_low);
      }
      MultiplyPieces<kArithmetic>(sums, a, b);
    }
    // Infinity cannot be split: its low part would be NaN. Such sums are computed term by term.
    if (!kIsOfFloats<kArithmetic> || AreFinite(sums[0])) {
#pragma unroll
      for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
#pragma unroll
        for (int place = 0; place < 4; ++place) scores[piece][place] = sums[0][piece][place];
      }
      return;
    }
    MultiplyPlainly<Shape>(memory, tile, scores);
  }

  // sums += weights x values
  template <class Shape>
  __device__ __forceinline__ static void AddValues(const typename Shape::Tile& tile,
                                                   const float (&weights)[Shape::kKeyPieces][4],
                                                   float (&sums)[1][Shape::kColumnPieces][4]) {
    if constexpr (kIsOfFloats<Shape::kArithmetic>) {
      AddFloats<Shape>(tile, weights, sums);
    } else {
      AddHalves<Shape>(tile, weights, sums);
    }
  }
#endif
};
