// softmax(scores) x values for a tile of queries by one block, on tensor cores. Keys and values
// pass through shared memory tile by tile, and softmax follows with the largest score and the sum
// so far (Milakov and Gimelshein's online softmax; Dao et al.'s FlashAttention), so that the scores
// of a query are never all there.
//
// A warp owns 16 queries. Of every 8 keys or columns, a thread has the two from lane % 4 * 2 on,
// for query lane / 4 of its warp (in places 0 and 1) and for the one 8 further on (2 and 3).

// kDepth elements of a query and a key, kColumns of a value, are multiples of 16.
template <Arithmetic kArithmetic_, int kQueries_, int kKeys_, int kDepth_, int kColumns_>
struct AttentionShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kQueries = kQueries_, kKeys = kKeys_;
  static constexpr int kThreads = 2 * kQueries;
  static constexpr int kPerWord = kIsOfFloats<kArithmetic> ? 1 : 2;
  static constexpr int kDepthWords = kDepth_ / kPerWord;
  static constexpr int kSteps = kDepthWords / 8;  // of a sum of products of queries and keys
  static constexpr int kKeyPieces = kKeys / 8;
  static constexpr int kColumnPieces = kColumns_ / 8;
  static constexpr int kPlaces = 4;  // of a thread in 8 columns

  // Rows are followed by 16 bytes of nothing, so that what a warp reads together lies in different
  // banks.
  struct Tile {
    unsigned keys[kKeys][kDepthWords + 4];
    unsigned values[kKeys][kColumns_ / kPerWord + 4];
  };
  struct alignas(16) Memory {
    unsigned queries[kQueries][kDepthWords + 4];
    Tile tiles[2];  // one is filled while the other is worked on
  };
};

// Where in its tile a thread's element is: `place` is 0 to 3.
__device__ __forceinline__ int QueryInTile(int place) {
  return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + place / 2 * 8;
}
__device__ __forceinline__ int ColumnInTile(int piece, int place) {
  return piece * 8 + threadIdx.x % 4 * 2 + place % 2;
}

// A thread's share of the queries of its warp, in the order in which tensor cores take it.
template <class Shape>
struct QueryWords {
  unsigned words[Shape::kSteps][4];
};
// Of a key that is not there: minus infinity.
__device__ __forceinline__ float NoScore() { return -__int_as_float(0x7f800000); }

// What a thread knows of its two queries after some of the keys.
template <class Shape>
struct AttentionSums {
  float most[2] = {NoScore(), NoScore()};  // the largest score
  float total[2] = {};                     // of exp(score - most), over the thread's own keys
  float values[1][Shape::kColumnPieces][4] = {};  // the values' sums, each times exp(score - most)
};

template <class Shape>
__device__ __forceinline__ QueryWords<Shape> ReadQueries(const typename Shape::Memory& memory) {
  QueryWords<Shape> queries;
  for (int step = 0; step < Shape::kSteps; ++step) {
    for (int i = 0; i < 4; ++i) {
      const int word = 8 * step + threadIdx.x % 4 + i / 2 * 4;
      queries.words[step][i] = memory.queries[QueryInTile(i % 2 * 2)][word];
    }
  }
  return queries;
}

// scores = queries x keys^T for a tile of keys, term by term.
template <class Shape>
__device__ __forceinline__ void MultiplyPlainly(const typename Shape::Memory& memory,
                                                const typename Shape::Tile& tile,
                                                float (&scores)[Shape::kKeyPieces][4]) {
  float plain[4 * Shape::kKeyPieces];  // what loops fill that are not unrolled
#pragma unroll 1
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) {
    const unsigned* query = memory.queries[QueryInTile(i % 4)];
    const unsigned* key = tile.keys[ColumnInTile(i / 4, i % 4)];
    plain[i] = 0.0f;
    for (int word = 0; word < Shape::kDepthWords; ++word) {
      for (int half = 0; half < Shape::kPerWord; ++half) {
        plain[i] += NumberIn<Shape::kArithmetic>(query[word], half) *
                    NumberIn<Shape::kArithmetic>(key[word], half);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) scores[i / 4][i % 4] = plain[i];
}

#ifdef __CUDACC__
template <int kPieces>
__device__ __forceinline__ bool AreFinite(const float (&numbers)[kPieces][4]) {
  bool finite = true;
#pragma unroll
  for (int i = 0; i < 4 * kPieces; ++i) finite &= IsFinite(numbers[i / 4][i % 4]);
  return finite;
}

// Four matrices of 8 x 8 halves from shared memory, each from where eight lanes point to its rows;
// `turned` ones have two rows in a word.
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

// The words of all keys of a tile that take part in step `step`.
template <class Shape>
__device__ __forceinline__ void ReadKeys(const typename Shape::Tile& tile, int step,
                                         unsigned (&words)[Shape::kKeyPieces][2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
    if constexpr (kIsOfFloats<Shape::kArithmetic>) {
      const unsigned* key = tile.keys[8 * piece + lane / 4] + 8 * step;
      words[piece][0] = key[lane % 4];
      words[piece][1] = key[lane % 4 + 4];
    } else if (piece % 2 == 0) {
      const unsigned* key = tile.keys[8 * piece + lane / 16 * 8 + lane % 8] + 8 * step;
      LoadMatrices<false>(words[piece], words[piece + 1], key + lane / 8 % 2 * 4);
    }
  }
}
#endif

// scores = queries x keys^T for a tile of keys.
template <class Shape>
__device__ __forceinline__ void MultiplyKeys(const typename Shape::Memory& memory,
                                             const typename Shape::Tile& tile,
                                             const QueryWords<Shape>& queries,
                                             float (&scores)[Shape::kKeyPieces][4]) {
#ifdef __CUDACC__
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
  float sums[1][Shape::kKeyPieces][4] = {};
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    unsigned a[1][4], a_low[1][4], b[Shape::kKeyPieces][2], b_low[Shape::kKeyPieces][2];
    for (int i = 0; i < 4; ++i) a[0][i] = queries.words[step][i];
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
  // An infinity has no second part, and infinity times a second part of zero is NaN.
  if (!kIsOfFloats<kArithmetic> || AreFinite(sums[0])) {
#pragma unroll
    for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
#pragma unroll
      for (int place = 0; place < 4; ++place) scores[piece][place] = sums[0][piece][place];
    }
    return;
  }
#endif
  MultiplyPlainly<Shape>(memory, tile, scores);
}

// exp(score - most); for halves good to 22 bits, and 0 below 2^-126. The difference comes first: a
// score may be the lowest number of its format, which a mask adds, and overflow when multiplied.
template <class Shape>
__device__ __forceinline__ float Weight(float score, float most) {
#ifdef __CUDACC__
  if constexpr (!kIsOfFloats<Shape::kArithmetic>) {
    constexpr float kLog2E = 1.44269504f;
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"((score - most) * kLog2E));
    return result;
  }
#endif
  return expf(score - most);
}

// `scores` become exp(score - most), with `sums` made ready for them: a larger score makes less of
// what was added up so far.
template <class Shape>
__device__ __forceinline__ void Exponentiate(float (&scores)[Shape::kKeyPieces][4],
                                             AttentionSums<Shape>& sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float most = sums.most[row];
#pragma unroll
    for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
      most = fmaxf(most, fmaxf(scores[piece][2 * row], scores[piece][2 * row + 1]));
    }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const float shift = most == NoScore() ? 0.0f : most;  // all scores so far are -infinity
    const float shrink = Weight<Shape>(sums.most[row], shift);
    sums.most[row] = most;
    sums.total[row] *= shrink;
#pragma unroll
    for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
#pragma unroll
      for (int place = 2 * row; place < 2 * row + 2; ++place) {
        scores[piece][place] = Weight<Shape>(scores[piece][place], shift);
        sums.total[row] += scores[piece][place];
      }
    }
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      sums.values[0][piece][2 * row] *= shrink;
      sums.values[0][piece][2 * row + 1] *= shrink;
    }
  }
}

// sums += weights x values for a tile of values, term by term.
template <class Shape>
__device__ __forceinline__ void AddPlainly(const typename Shape::Tile& tile,
                                           const float (&weights)[Shape::kKeyPieces][4],
                                           float (&sums)[1][Shape::kColumnPieces][4]) {
  float plain[4 * Shape::kKeyPieces];  // what a loop reads that is not unrolled
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) plain[i] = weights[i / 4][i % 4];
#pragma unroll 1
  for (int key = 0; key < Shape::kKeys; ++key) {
    const int owner = threadIdx.x % 32 / 4 * 4 + key % 8 / 2;
    const float first = __shfl_sync(~0u, plain[key / 8 * 4 + key % 2], owner);
    const float second = __shfl_sync(~0u, plain[key / 8 * 4 + key % 2 + 2], owner);
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
#pragma unroll
      for (int place = 0; place < 4; ++place) {
        const int column = ColumnInTile(piece, place);
        const unsigned word = tile.values[key][column / Shape::kPerWord];
        sums[0][piece][place] += (place < 2 ? first : second) *
                                 NumberIn<Shape::kArithmetic>(word, column % Shape::kPerWord);
      }
    }
  }
}

#ifdef __CUDACC__
// Two floats rounded to halves, in one word.
template <Arithmetic kArithmetic>
__device__ __forceinline__ unsigned PackHalves(float low, float high) {
  unsigned word;
  if constexpr (kArithmetic == Arithmetic::kHalf) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// sums += weights x values for halves.
template <class Shape>
__device__ __forceinline__ void AddHalves(const typename Shape::Tile& tile,
                                          const float (&weights)[Shape::kKeyPieces][4],
                                          float (&sums)[1][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
#pragma unroll
  for (int step = 0; step < Shape::kKeys / 16; ++step) {
    unsigned a[1][4], b[Shape::kColumnPieces][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = weights[2 * step + i / 2];
      a[0][i] = PackHalves<kArithmetic>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; piece += 2) {
      const unsigned* value = tile.values[16 * step + lane % 16];
      LoadMatrices<true>(b[piece], b[piece + 1], value + 4 * (piece + lane / 16));
    }
    MultiplyPieces<kArithmetic>(sums, a, b);
  }
}

// sums += weights x values for floats.
template <class Shape>
__device__ __forceinline__ void AddFloats(const typename Shape::Tile& tile,
                                          const float (&weights)[Shape::kKeyPieces][4],
                                          float (&sums)[1][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
  float added[1][Shape::kColumnPieces][4] = {};  // tensor cores round sums toward zero
#pragma unroll
  for (int step = 0; step < Shape::kKeyPieces; ++step) {
    // Sums know no order: what stands where tensor cores look for keys 0 to 7 are keys 0, 2, 4, 6,
    // 1, 3, 5, 7.
    unsigned a[1][4], a_low[1][4], b[Shape::kColumnPieces][2], b_low[Shape::kColumnPieces][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[0][i] = __float_as_uint(weights[step][i % 2 * 2 + i / 2]);
    SplitWords<kArithmetic>(a[0], a_low[0]);
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      const int key = 8 * step + threadIdx.x % 4 * 2;
      b[piece][0] = tile.values[key][8 * piece + threadIdx.x % 32 / 4];
      b[piece][1] = tile.values[key + 1][8 * piece + threadIdx.x % 32 / 4];
      SplitWords<kArithmetic>(b[piece], b_low[piece]);
    }
    if constexpr (kArithmetic == Arithmetic::kSplitTf32) {
      MultiplyPieces<kArithmetic>(added, a_low, b);
      MultiplyPieces<kArithmetic>(added, a, b_low);
    }
    MultiplyPieces<kArithmetic>(added, a, b);
  }
  if (!__all_sync(~0u, AreFinite(added[0]))) return AddPlainly<Shape>(tile, weights, sums);
#pragma unroll
  for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
#pragma unroll
    for (int place = 0; place < 4; ++place) sums[0][piece][place] += added[0][piece][place];
  }
}
#endif

// Whether all scores of the warp are so far below the largest so far that exp makes zeros of them.
template <class Shape>
__device__ __forceinline__ bool WeightsVanish(const float (&scores)[Shape::kKeyPieces][4],
                                              const AttentionSums<Shape>& sums) {
  constexpr float kVanishing = 104.0f;  // exp(-104) is less than half of the smallest float
  bool vanish = true;
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) {
    vanish = vanish && scores[i / 4][i % 4] < sums.most[i % 4 / 2] - kVanishing;
  }
  return __all_sync(~0u, vanish);
}

// Whether no value of a tile is infinite or NaN, which a weight of zero would make NaN.
template <class Shape>
__device__ __forceinline__ bool ValuesAreFinite(const typename Shape::Tile& tile) {
  // One more at the end of an exponent of ones reaches the bit above.
  constexpr bool kFloats = kIsOfFloats<Shape::kArithmetic>;
  constexpr bool kHalves = Shape::kArithmetic == Arithmetic::kHalf;
  constexpr unsigned kExponents = kFloats ? 0x7f800000u : kHalves ? 0x7c007c00u : 0x7f807f80u;
  constexpr unsigned kLastBits = kFloats ? 0x00800000u : kHalves ? 0x04000400u : 0x00800080u;
  constexpr unsigned kBitsAbove = kFloats ? 0x80000000u : 0x80008000u;
  constexpr int kVectors =
      Shape::kColumnPieces * 8 / Shape::kPerWord / 4;  // of 4 words, of a value
  unsigned reached = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < Shape::kKeys * kVectors; i += 32) {
    const unsigned* place = tile.values[i / kVectors] + i % kVectors * 4;
    const Vector<unsigned, 4> words = LoadVector<4>(place);
    for (int k = 0; k < 4; ++k) reached |= (words.at[k] & kExponents) + kLastBits;
  }
  return __all_sync(~0u, (reached & kBitsAbove) == 0);
}

// Takes a tile of values into `sums`; of `scores`, weights are left.
template <class Shape>
__device__ __forceinline__ void AddTile(const typename Shape::Tile& tile,
                                        float (&scores)[Shape::kKeyPieces][4],
                                        AttentionSums<Shape>& sums) {
  Exponentiate<Shape>(scores, sums);
#ifdef __CUDACC__
  if constexpr (kIsOfFloats<Shape::kArithmetic>) {
    AddFloats<Shape>(tile, scores, sums.values);
  } else {
    AddHalves<Shape>(tile, scores, sums.values);
  }
#else
  AddPlainly<Shape>(tile, scores, sums.values);
#endif
}

// As AddTile, where a mask may leave nothing of a tile.
template <class Shape>
__device__ __forceinline__ void AddMaskedTile(const typename Shape::Tile& tile,
                                              float (&scores)[Shape::kKeyPieces][4],
                                              AttentionSums<Shape>& sums) {
  if (WeightsVanish<Shape>(scores, sums) && ValuesAreFinite<Shape>(tile)) return;
  AddTile<Shape>(tile, scores, sums);
}

// After the last tile: `values` become the weighted means, the results.
template <class Shape>
__device__ __forceinline__ void DivideByTotals(AttentionSums<Shape>& sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float total = sums.total[row];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const float scale = 1.0f / total;
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      sums.values[0][piece][2 * row] *= scale;
      sums.values[0][piece][2 * row + 1] *= scale;
    }
  }
}
