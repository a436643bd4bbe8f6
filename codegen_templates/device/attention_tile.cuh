// A block computes weights x values for a tile of queries on tensor cores. The weights are computed
// from scores = queries x keys^T, by pointwise ops or by softmax. Keys and values pass through
// shared memory tile by tile. Softmax keeps the largest score and the sum of weights so far
// (Milakov and Gimelshein's online softmax; Dao et al.'s FlashAttention), so that the scores of a
// query are never stored to global memory.
//
// Each warp is responsible for 16 queries. Of every 8 keys or columns, a thread holds the two from
// lane % 4 * 2 on: in places 0 and 1 for query lane / 4 of its warp, in places 2 and 3 for query
// lane / 4 + 8. Where there are few queries, several warps have the same queries, and each has a
// part of the keys (attention_parts.cuh).

// Rows in shared memory with 16 bytes of padding, so that the words that a warp reads together lie
// in different banks.
template <int kRows, int kWords>
struct alignas(16) PaddedRows {
  unsigned words[kRows][kWords + 4];

  __device__ __forceinline__ unsigned* at(int row, int word) { return words[row] + word; }
  __device__ __forceinline__ const unsigned* at(int row, int word) const {
    return words[row] + word;
  }
};

// The sizes of a kernel: kQueries queries per block, kKeys keys per tile, which are divided among
// kKeyWarps warps, and shared memory for kTiles tiles. Queries and keys have kDepth elements,
// values have kColumns; both are multiples of 16. Products_ is WarpProducts (attention_mma.cuh) or
// WarpgroupProducts (attention_warpgroup.cuh).
template <Arithmetic kArithmetic_, int kQueries_, int kKeys_, int kTiles, int kDepth_,
          int kColumns_, class Products_, int kKeyWarps_ = 1>
struct AttentionShape {
  using Products = Products_;
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kQueries = kQueries_, kKeys = kKeys_, kKeyWarps = kKeyWarps_;
  static constexpr int kThreads = 2 * kQueries * kKeyWarps;
  static constexpr int kPerWord = kIsOfFloats<kArithmetic> ? 1 : 2;
  static constexpr int kDepthWords = kDepth_ / kPerWord;
  static constexpr int kSteps = kDepthWords / 8;  // of 8 words along the depth
  static constexpr int kColumns = kColumns_;
  static constexpr int kKeyPieces = kKeys / kKeyWarps / 8;  // of 8 keys, per warp
  static constexpr int kColumnPieces = kColumns / 8;
  static constexpr int kRows = 2;    // queries of a thread
  static constexpr int kPlaces = 4;  // elements of a thread in 8 columns

  struct Tile {
    typename Products::template Rows<kKeys, kDepthWords> keys;
    typename Products::template Rows<kKeys, kColumns / kPerWord> values;
  };
  struct Memory {
    typename Products::template Rows<kQueries, kDepthWords> queries;
    Tile tiles[kTiles];  // with two, one is filled while the other is used
  };
  // The results, which overwrite the Memory at the end.
  using Results = PaddedRows<kQueries, kColumns / kPerWord>;
};

// The first key of a tile that this thread's warp uses.
template <class Shape>
__device__ __forceinline__ int FirstKeyOfWarp() {
  return threadIdx.x / 32 % Shape::kKeyWarps * (8 * Shape::kKeyPieces);
}

// The query, the column and the key of this thread's element at `place` (0 to 3), counted from the
// beginning of the tile.
template <class Shape>
__device__ __forceinline__ int QueryInTile(int place) {
  return threadIdx.x / 32 / Shape::kKeyWarps * 16 + threadIdx.x % 32 / 4 + place / 2 * 8;
}
__device__ __forceinline__ int ColumnInTile(int piece, int place) {
  return piece * 8 + threadIdx.x % 4 * 2 + place % 2;
}
template <class Shape>
__device__ __forceinline__ int KeyInTile(int piece, int place) {
  return FirstKeyOfWarp<Shape>() + ColumnInTile(piece, place);
}

// The score of a key that does not exist: minus infinity.
__device__ __forceinline__ float NoScore() { return -__int_as_float(0x7f800000); }

// A thread's intermediate results for its two queries, after a part of the keys.
template <class Shape>
struct AttentionSums {
  // The largest score so far, and the sum of exp(score - most) over this thread's own keys.
  float most[2] = {NoScore(), NoScore()};
  float total[2] = {};
  float values[1][Shape::kColumnPieces][4] = {};  // sums of weight * value
};

// The part of the queries that a thread keeps in registers while it loops over the keys.
template <class Shape>
using Queries = typename Shape::Products::template Queries<Shape>;

template <class Shape>
__device__ __forceinline__ Queries<Shape> TakeQueries(const typename Shape::Memory& memory) {
#ifdef __CUDACC__
  return Shape::Products::template TakeQueries<Shape>(memory);
#else
  return {};
#endif
}

// scores = queries x keys^T for a tile of keys, as a plain loop over the terms.
template <class Shape>
__device__ __forceinline__ void MultiplyPlainly(const typename Shape::Memory& memory,
                                                const typename Shape::Tile& tile,
                                                float (&scores)[Shape::kKeyPieces][4]) {
  float plain[4 * Shape::kKeyPieces];  // indexed by a loop that is not unrolled
#pragma unroll 1
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) {
    plain[i] = 0.0f;
    for (int word = 0; word < Shape::kDepthWords; ++word) {
      const unsigned query = *memory.queries.at(QueryInTile<Shape>(i % 4), word);
      const unsigned key = *tile.keys.at(KeyInTile<Shape>(i / 4, i % 4), word);
      for (int half = 0; half < Shape::kPerWord; ++half) {
        plain[i] +=
            NumberIn<Shape::kArithmetic>(query, half) * NumberIn<Shape::kArithmetic>(key, half);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) scores[i / 4][i % 4] = plain[i];
}

// exp(score - most). For 16-bit formats the result has 22 correct bits, and results below 2^-126
// are 0.
template <class Shape>
__device__ __forceinline__ float Weight(float score, float most) {
#ifdef __CUDACC__
  if constexpr (!kIsOfFloats<Shape::kArithmetic>) {
    constexpr float kLog2E = 1.44269504f;
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(result)
        : "f"(__fmaf_rn(score, kLog2E, most * -kLog2E)));
    return result;
  }
#endif
  return expf(score - most);
}

// Replaces scores by exp(score - most). If a score is larger than all earlier ones, the contents of
// `sums` are scaled down to the new maximum.
template <class Shape>
__device__ __forceinline__ void Exponentiate(float (&scores)[Shape::kKeyPieces][4],
                                             AttentionSums<Shape>& sums) {
  constexpr float kLargest = 1e30f;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float most = sums.most[row];
#pragma unroll
    for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
      most = fmaxf(most, fmaxf(scores[piece][2 * row], scores[piece][2 * row + 1]));
    }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    float shift = most == NoScore() ? 0.0f : most;  // all scores so far are -infinity
    float before = sums.most[row];
    sums.most[row] = most;
    // A mask may add the lowest finite number of a format; such scores must not overflow in Weight.
    if (fabsf(shift) > kLargest) {
      before -= shift;
#pragma unroll
      for (int piece = 0; piece < Shape::kKeyPieces; ++piece) {
        scores[piece][2 * row] -= shift;
        scores[piece][2 * row + 1] -= shift;
      }
      shift = 0.0f;
    }
    const float shrink = Weight<Shape>(before, shift);
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

// sums += weights x values for a tile of values, as a plain loop over the keys, for kPieces pieces
// of 8 columns, from piece kFirst on.
template <class Shape, int kFirst = 0, int kPieces = Shape::kColumnPieces>
__device__ __forceinline__ void AddPlainly(const typename Shape::Tile& tile,
                                           const float (&weights)[Shape::kKeyPieces][4],
                                           float (&sums)[1][Shape::kColumnPieces][4]) {
  float plain[4 * Shape::kKeyPieces];  // indexed by a loop that is not unrolled
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) plain[i] = weights[i / 4][i % 4];
#pragma unroll 1
  for (int key = 0; key < 8 * Shape::kKeyPieces; ++key) {
    const int owner = threadIdx.x % 32 / 4 * 4 + key % 8 / 2;
    const float first = __shfl_sync(~0u, plain[key / 8 * 4 + key % 2], owner);
    const float second = __shfl_sync(~0u, plain[key / 8 * 4 + key % 2 + 2], owner);
#pragma unroll
    for (int piece = kFirst; piece < kFirst + kPieces; ++piece) {
#pragma unroll
      for (int place = 0; place < 4; ++place) {
        const int column = ColumnInTile(piece, place);
        const unsigned word =
            *tile.values.at(FirstKeyOfWarp<Shape>() + key, column / Shape::kPerWord);
        sums[0][piece][place] += (place < 2 ? first : second) *
                                 NumberIn<Shape::kArithmetic>(word, column % Shape::kPerWord);
      }
    }
  }
}

// Whether the weights of all scores of this thread are 0, because the scores are far below the
// largest one so far.
template <class Shape>
__device__ __forceinline__ bool WeightsVanish(const float (&scores)[Shape::kKeyPieces][4],
                                              const AttentionSums<Shape>& sums) {
  constexpr float kVanishing = 104.0f;  // exp(-104) is less than half of the smallest float
  bool vanish = true;
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) {
    vanish = vanish && scores[i / 4][i % 4] < sums.most[i % 4 / 2] - kVanishing;
  }
  return vanish;
}

// Whether this thread's share of a tile has neither infinities nor NaNs. If there are any, a weight
// of zero must not be skipped, because its product with them is NaN.
template <class Shape>
__device__ __forceinline__ bool ValuesAreFinite(const typename Shape::Tile& tile) {
  // An exponent of ones marks infinity and NaN; adding one to it carries into the bit above.
  constexpr bool kFloats = kIsOfFloats<Shape::kArithmetic>;
  constexpr bool kHalves = Shape::kArithmetic == Arithmetic::kHalf;
  constexpr unsigned kExponents = kFloats ? 0x7f800000u : kHalves ? 0x7c007c00u : 0x7f807f80u;
  constexpr unsigned kLastBits = kFloats ? 0x00800000u : kHalves ? 0x04000400u : 0x00800080u;
  constexpr unsigned kBitsAbove = kFloats ? 0x80000000u : 0x80008000u;
  constexpr int kVectors = Shape::kColumnPieces * 2 / Shape::kPerWord;  // of 4 words, per value
  constexpr int kAll = Shape::kKeys * kVectors;
  unsigned reached = 0;
#pragma unroll
  for (int first = 0; first < kAll; first += Shape::kThreads) {
    const int i = first + threadIdx.x;
    if (first + Shape::kThreads > kAll && i >= kAll) break;
    const Vector<unsigned, 4> words = LoadVector<4>(tile.values.at(i / kVectors, i % kVectors * 4));
    for (int k = 0; k < 4; ++k) reached |= (words.at[k] & kExponents) + kLastBits;
  }
  return (reached & kBitsAbove) == 0;
}

// scores = queries x keys^T for a tile of keys.
template <class Shape>
__device__ __forceinline__ void MultiplyKeys(const typename Shape::Memory& memory,
                                             const typename Shape::Tile& tile,
                                             const Queries<Shape>& queries,
                                             float (&scores)[Shape::kKeyPieces][4]) {
#ifdef __CUDACC__
  Shape::Products::template MultiplyKeys<Shape>(memory, tile, queries, scores);
#else
  MultiplyPlainly<Shape>(memory, tile, scores);
#endif
}

// Adds a tile of values to `sums`, each times its weight.
template <class Shape>
__device__ __forceinline__ void AddValues(const typename Shape::Tile& tile,
                                          const float (&weights)[Shape::kKeyPieces][4],
                                          AttentionSums<Shape>& sums) {
#ifdef __CUDACC__
  Shape::Products::template AddValues<Shape>(tile, weights, sums.values);
#else
  AddPlainly<Shape>(tile, weights, sums.values);
#endif
}

// The same for models with a mask. If the mask makes all weights of the block zero, the block skips
// the tile.
template <class Shape>
__device__ __forceinline__ void AddMaskedValues(const typename Shape::Tile& tile,
                                                const float (&weights)[Shape::kKeyPieces][4],
                                                AttentionSums<Shape>& sums) {
  bool vanish = ValuesAreFinite<Shape>(tile);
#pragma unroll
  for (int i = 0; i < 4 * Shape::kKeyPieces; ++i) vanish = vanish && weights[i / 4][i % 4] == 0.0f;
  if (__syncthreads_and(vanish)) return;
  AddValues<Shape>(tile, weights, sums);
}

// Adds a tile of values to `sums`, each times the weight that softmax computes from its score.
template <class Shape>
__device__ __forceinline__ void AddTile(const typename Shape::Tile& tile,
                                        float (&scores)[Shape::kKeyPieces][4],
                                        AttentionSums<Shape>& sums) {
  Exponentiate<Shape>(scores, sums);
  AddValues<Shape>(tile, scores, sums);
}

// Masks give hidden keys scores of at most twice this, so that beside a seen key they have no
// weight. The second is for half precision.
constexpr float kLeastSeen = -5e29f;
constexpr float kLeastSeenHalf = -32752.0f;

// The same for models with a mask. If the mask hides the tile from the whole block, the block skips
// it.
template <class Shape>
__device__ __forceinline__ void AddMaskedTile(const typename Shape::Tile& tile,
                                              float (&scores)[Shape::kKeyPieces][4],
                                              AttentionSums<Shape>& sums) {
  if (__syncthreads_and(WeightsVanish<Shape>(scores, sums) && ValuesAreFinite<Shape>(tile))) return;
  AddTile<Shape>(tile, scores, sums);
}

// The sum of a query's weights. Four threads hold a part of it each.
template <class Shape>
__device__ __forceinline__ float TotalOfRow(const AttentionSums<Shape>& sums, int row) {
  float total = sums.total[row];
  total += __shfl_xor_sync(~0u, total, 1);
  total += __shfl_xor_sync(~0u, total, 2);
  return total;
}

// Multiplies a query's sums of weight * value.
template <class Shape>
__device__ __forceinline__ void ScaleRow(AttentionSums<Shape>& sums, int row, float scale) {
#pragma unroll
  for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
    sums.values[0][piece][2 * row] *= scale;
    sums.values[0][piece][2 * row + 1] *= scale;
  }
}

// Divides the sums of weight * value by the sums of the weights, after the last tile. That gives
// the results.
template <class Shape>
__device__ __forceinline__ void DivideByTotals(AttentionSums<Shape>& sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) ScaleRow<Shape>(sums, row, 1.0f / TotalOfRow<Shape>(sums, row));
}

// Divides like DivideByTotals, but leaves rows as zeros all of whose scores are -infinity.
template <class Shape>
__device__ __forceinline__ void DivideByTotalsOfSeen(AttentionSums<Shape>& sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float total = TotalOfRow<Shape>(sums, row);
    ScaleRow<Shape>(sums, row, total == 0.0f ? 1.0f : 1.0f / total);
  }
}

// Divides like DivideByTotals, but gives zeros to rows whose weights would be NaN. Either all
// scores of such a row are -infinity, and its total is 0, or one of its scores is NaN or infinity,
// and its total is NaN.
template <class Shape>
__device__ __forceinline__ void DivideByTotalsOrZero(AttentionSums<Shape>& sums) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float total = TotalOfRow<Shape>(sums, row);
    const float scale = total > 0.0f ? 1.0f / total : 1.0f;
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
#pragma unroll
      for (int place = 2 * row; place < 2 * row + 2; ++place) {
        float& value = sums.values[0][piece][place];
        value = total == total ? value * scale : 0.0f;
      }
    }
  }
}

// Rounds the results to the type of the operands and stores them in shared memory, so that all
// threads of the block can read them.
template <class Shape>
__device__ __forceinline__ const typename Shape::Results& ShareResults(
    const AttentionSums<Shape>& sums, typename Shape::Memory& memory) {
  static_assert(sizeof(typename Shape::Results) <= sizeof(typename Shape::Memory));
  auto& results = reinterpret_cast<typename Shape::Results&>(memory);
  __syncthreads();
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      const float low = sums.values[0][piece][2 * row], high = sums.values[0][piece][2 * row + 1];
      const int column = ColumnInTile(piece, 0);
      unsigned* words = results.at(QueryInTile<Shape>(2 * row), column / Shape::kPerWord);
      if constexpr (kIsOfFloats<Shape::kArithmetic>) {
        words[0] = __float_as_uint(low);
        words[1] = __float_as_uint(high);
      } else {
        words[0] = PackHalves<Shape::kArithmetic>(low, high);
      }
    }
  }
  __syncthreads();
  return results;
}

// Reads vector number `vector`, of kCount results, of a query.
template <class T, int kCount, class Results>
__device__ __forceinline__ Vector<T, kCount> ReadResults(const Results& results, int query,
                                                         int vector) {
  const unsigned* words = results.at(query, vector * static_cast<int>(kCount * sizeof(T) / 4));
  return *reinterpret_cast<const Vector<T, kCount>*>(words);
}
