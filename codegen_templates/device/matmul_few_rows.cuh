// The product a x b^T for few rows of a in 16-bit floats, on tensor cores. The warps of a block
// multiply the weights of 16 columns by all rows, and split the depth among them. Each weight is
// read once.

// The sums of 16 columns and kRows rows, a multiple of 8, in shared memory: those of each of kWarps
// warps over its part of the depth.
template <int kRows, int kWarps>
struct ColumnSums {
  float of_warps[kWarps][kRows][16 + 1];  // a gap avoids bank conflicts

  __device__ __forceinline__ float Total(int row, int column) const {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) total += of_warps[warp][row][column];
    return total;
  }
};

// Which two terms of each 8 share a word: terms 2 i and 2 i + 1, or i and i + 4.
enum class PairOrder { kAdjacent, kFourApart };

// The weights of consecutive columns in memory, of which `count` exist. A column has `depth`.
template <class T>
struct ColumnsInMemory {
  const T* first;
  int depth, count;
};
template <class T>
__device__ __forceinline__ ColumnsInMemory<T> ColumnsFrom(const T* first, int depth, int count) {
  return {first, depth, count};
}

// Pack number `pack` of a column, kPack consecutive weights: from memory, or from a function
// `weights(column, pack, made)` that computes it.
template <int kPack, class T>
__device__ __forceinline__ Vector<T, kPack> LoadColumn(const ColumnsInMemory<T>& weights,
                                                       int column, int pack) {
  const long long place = static_cast<long long>(min(column, weights.count - 1)) * weights.depth;
  return LoadVector<kPack>(weights.first + place + pack * kPack);
}
template <int kPack, class Weights>
__device__ __forceinline__ Vector<float, kPack> LoadColumn(const Weights& weights, int column,
                                                           int pack) {
  Vector<float, kPack> made;
  weights(column, pack, made);
  return made;
}

// A pack of 16-bit weights in words; floats are rounded.
template <Arithmetic kArithmetic, int kPack, class T>
__device__ __forceinline__ void RoundToWords(const Vector<T, kPack>& weights,
                                             unsigned (&words)[kPack / 2]) {
  if constexpr (sizeof(T) == 2) {
    ToWords(weights, words);
  } else {
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i)
      words[i] = PackHalves<kArithmetic>(weights.at[2 * i], weights.at[2 * i + 1]);
  }
}

// Pack number `pack` of a column, in words. With kFourApart, `weights(column, pack, words)` makes
// them.
template <Arithmetic kArithmetic, PairOrder kOrder, int kPack, class Weights>
__device__ __forceinline__ void LoadColumnWords(const Weights& weights, int column, int pack,
                                                unsigned (&words)[kPack / 2]) {
  if constexpr (kOrder == PairOrder::kFourApart)
    weights(column, pack, words);
  else
    RoundToWords<kArithmetic, kPack>(LoadColumn<kPack>(weights, column, pack), words);
}

// A pack of each of two columns, in words.
template <PairOrder kOrder, int kPack>
struct ColumnPair {
  unsigned words[2][kPack / 2];
};

// Pack number `pack` of the columns lane / 4 and lane / 4 + 8; zeros if it does not `exist`.
template <Arithmetic kArithmetic, PairOrder kOrder, int kPack, class Weights>
__device__ __forceinline__ ColumnPair<kOrder, kPack> LoadColumnPair(const Weights& weights,
                                                                    int pack, bool exists) {
  ColumnPair<kOrder, kPack> pair = {};
  if (!exists) return pair;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    LoadColumnWords<kArithmetic, kOrder, kPack>(weights, threadIdx.x % 32 / 4 + 8 * i, pack,
                                                pair.words[i]);
  return pair;
}

// Puts the halves of adjacent terms in words with the terms four apart.
template <int kWords>
__device__ __forceinline__ void PairFourApart(unsigned (&words)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; i += 4) {
    const unsigned first = words[i], second = words[i + 1], third = words[i + 2],
                   fourth = words[i + 3];
    words[i] = (first & 0xffff) | third << 16;
    words[i + 1] = first >> 16 | (third & 0xffff0000);
    words[i + 2] = (second & 0xffff) | fourth << 16;
    words[i + 3] = second >> 16 | (fourth & 0xffff0000);
  }
}

// The pack of this thread in step number `step`. Four consecutive threads have consecutive packs of
// the same columns.
template <int kWarps>
__device__ __forceinline__ int PackOfStep(int step) {
  return (step * kWarps + threadIdx.x / 32) * 4 + threadIdx.x % 4;
}
// Whether it exists. This is known when the kernel is compiled if all warps have packs in that
// step: there is no branch then, so that the loads of several steps run concurrently.
template <int kWarps>
__device__ __forceinline__ bool HasPack(int step, int packs) {
  return (step + 1) * kWarps * 4 <= packs || PackOfStep<kWarps>(step) < packs;
}

// The packs of the first kFirst steps, which are read before the rows of a are available.
template <PairOrder kOrder, int kPack, int kFirst>
struct FirstColumnPairs {
  ColumnPair<kOrder, kPack> steps[kFirst];
};
template <Arithmetic kArithmetic, PairOrder kOrder, int kWarps, int kPack, int kFirst,
          class Weights>
__device__ __forceinline__ auto ReadFirstPairs(const Weights& weights, int depth) {
  FirstColumnPairs<kOrder, kPack, kFirst> first;
#pragma unroll
  for (int step = 0; step < kFirst; ++step)
    first.steps[step] = LoadColumnPair<kArithmetic, kOrder, kPack>(
        weights, PackOfStep<kWarps>(step), HasPack<kWarps>(step, depth / kPack));
  return first;
}

#ifdef __CUDACC__
// products += a pack of two columns x the same terms of the rows. A thread has, for each 8 rows,
// the products of its two columns with two rows (MultiplyPiece).
template <Arithmetic kArithmetic, int kRows, PairOrder kOrder, int kPack, class Left>
__device__ __forceinline__ void MultiplyPair(const Left& a, int rows,
                                             const ColumnPair<kOrder, kPack>& pair, int pack,
                                             bool exists, int depth,
                                             float (&products)[kRows / 8][4]) {
#pragma unroll
  for (int tile = 0; tile < kRows / 8; ++tile) {
    const int row = min(tile * 8 + static_cast<int>(threadIdx.x) % 32 / 4, rows - 1);
    unsigned terms[kPack / 2] = {};
    if (exists) ToWords(LoadPack<kPack>(a, row, pack * kPack, depth), terms);
    if constexpr (kOrder == PairOrder::kFourApart) PairFourApart(terms);
#pragma unroll
    for (int i = 0; i < kPack / 2; i += 2) {
      const unsigned columns[4] = {pair.words[0][i], pair.words[1][i], pair.words[0][i + 1],
                                   pair.words[1][i + 1]};
      const unsigned of_row[2] = {terms[i], terms[i + 1]};
      MultiplyPiece<kArithmetic>(products[tile], columns, of_row);
    }
  }
}

// Multiplies the weights of 16 columns by `rows` rows (at most kRows) and writes the sums of each
// warp. All threads of the block must call this together.
template <Arithmetic kArithmetic, int kRows, int kWarps, PairOrder kOrder, int kPack, int kFirst,
          class Left, class Weights>
__device__ __forceinline__ void MultiplyColumns(
    const Left& a, int rows, const Weights& weights,
    const FirstColumnPairs<kOrder, kPack, kFirst>& first, int depth,
    ColumnSums<kRows, kWarps>& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, packs = depth / kPack;
  float products[kRows / 8][4] = {};
  const auto multiply = [&](const ColumnPair<kOrder, kPack>& pair, int step, bool exists) {
    MultiplyPair<kArithmetic, kRows>(a, rows, pair, PackOfStep<kWarps>(step), exists, depth,
                                     products);
  };
  const auto load = [&](int step, bool exists) {
    return LoadColumnPair<kArithmetic, kOrder, kPack>(weights, PackOfStep<kWarps>(step), exists);
  };
#pragma unroll
  for (int step = 0; step < kFirst; ++step)
    multiply(first.steps[step], step, HasPack<kWarps>(step, packs));
  const int whole = packs / (kWarps * 4);  // steps in which all warps have packs
#pragma unroll 4
  for (int step = kFirst; step < whole; ++step) multiply(load(step, true), step, true);
  if (whole >= kFirst && packs % (kWarps * 4) != 0) {
    const bool exists = HasPack<kWarps>(whole, packs);
    multiply(load(whole, exists), whole, exists);
  }
#pragma unroll
  for (int tile = 0; tile < kRows / 8; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums.of_warps[warp][tile * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] =
          products[tile][i];
  }
  __syncthreads();
}
#else
// The same without tensor cores.
template <Arithmetic kArithmetic, int kRows, int kWarps, PairOrder kOrder, int kPack, int kFirst,
          class Left, class Weights>
void MultiplyColumns(const Left& a, int rows, const Weights& weights,
                     const FirstColumnPairs<kOrder, kPack, kFirst>&, int depth,
                     ColumnSums<kRows, kWarps>& sums) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, packs = depth / kPack;
  for (int i = lane; i < kRows * 16; i += 32) {
    const int row = i / 16, column = i % 16;
    float sum = 0.0f;
    for (int pack = 0; pack < packs; ++pack) {
      if (pack / 4 % kWarps != warp) continue;
      unsigned terms[kPack / 2], words[kPack / 2];
      ToWords(LoadPack<kPack>(a, min(row, rows - 1), pack * kPack, depth), terms);
      if constexpr (kOrder == PairOrder::kFourApart) PairFourApart(terms);
      LoadColumnWords<kArithmetic, kOrder, kPack>(weights, column, pack, words);
      for (int term = 0; term < kPack; ++term)
        sum += NumberIn<kArithmetic>(terms[term / 2], term % 2) *
               NumberIn<kArithmetic>(words[term / 2], term % 2);
    }
    sums.of_warps[warp][row][column] = sum;
  }
  __syncthreads();
}
#endif
