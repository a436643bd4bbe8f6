// A left operand that the kernel of a product computes itself (prologue fusion). The kernel defines
// a function `left(row, pack)` for it. A row consists of packs, which are Vectors of consecutive
// elements; the function returns pack number `pack` of the row.

// Computes a chunk of Shape::kRows rows (see FillChunk). Each thread computes the packs at one
// place in every kRowStep-th row, kTogether of them in registers at a time; with twice as many,
// blocks of 128 rows took a third longer on an H200. Unless kWhole, rows that do not exist are
// copies of the last of the `rows` rows, and bytes from `row_bytes` on are zeros; these checks cost
// instructions.
template <bool kWhole, class Shape, class Rows, class Left>
__device__ __forceinline__ void MakeChunk(Rows& to, const Left& left, int rows, int row_bytes,
                                          int chunk) {
  using Pack = decltype(left(0, 0));
  constexpr int kPackBytes = sizeof(Pack), kPlaces = Shape::kChunkBytes / kPackBytes;
  constexpr int kRowStep = Shape::kThreads / kPlaces, kPacks = Shape::kRows / kRowStep;
  constexpr int kTogether = kPacks < 4 ? kPacks : 4;
  static_assert(Shape::kRows % kRowStep == 0 && kPacks % kTogether == 0);
  const int thread = threadIdx.x % Shape::kThreads;
  const int place = thread % kPlaces, first_row = thread / kPlaces;
  const int pack = chunk * kPlaces + place;
  const bool inside = kWhole || pack * kPackBytes < row_bytes;
#pragma unroll
  for (int first = 0; first < kPacks; first += kTogether) {
    Pack made[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int row = first_row + (first + i) * kRowStep;
      made[i] = left(kWhole ? row : min(row, rows - 1), inside ? pack : 0);
      if (!inside) made[i] = Pack{};
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      unsigned* word = to.at(first_row + (first + i) * kRowStep, place * kPackBytes / 4);
      KeepVector(reinterpret_cast<char*>(word) + place * kPackBytes % 4, made[i]);
    }
  }
}

// Computes chunk number `chunk` of the rows and stores it at the addresses that `to.at(row, word)`
// returns. `rows` rows (at least one) of `row_bytes` bytes exist.
template <class Shape, class Rows, class Left>
__device__ __forceinline__ void FillChunk(Shape, Rows& to, const Left& left, int rows,
                                          int row_bytes, int chunk) {
  if (rows >= Shape::kRows && (chunk + 1) * Shape::kChunkBytes <= row_bytes)
    MakeChunk<true, Shape>(to, left, rows, row_bytes, chunk);
  else
    MakeChunk<false, Shape>(to, left, rows, row_bytes, chunk);
}

// Word number `word`, of 32 bits, of a row.
template <class Left>
__device__ __forceinline__ unsigned LeftWord(const Left& left, int row, int word, int) {
  using Pack = decltype(left(0, 0));
  constexpr int kWords = sizeof(Pack) / 4;
  union {
    Pack made;
    unsigned words[kWords];
  } pack = {left(row, word / kWords)};
  return pack.words[word % kWords];
}

// Returns a function that maps k to element k of the row.
template <class Left>
__device__ __forceinline__ auto RowOf(const Left& left, int row) {
  constexpr int kElements = sizeof(left(0, 0).at) / sizeof(left(0, 0).at[0]);
  return [=](int k) { return left(row, k / kElements).at[k % kElements]; };
}

// kPack consecutive elements of a row, from element k on. `first` is the pack that begins there;
// the others are computed.
template <int kPack, class T, int kElements, class Left>
__device__ __forceinline__ Vector<T, kPack> JoinPacks(const Vector<T, kElements>& first,
                                                      const Left& left, int row, int k) {
  static_assert(kPack % kElements == 0);
  Vector<T, kPack> joined;
#pragma unroll
  for (int element = 0; element < kPack; element += kElements) {
    const Vector<T, kElements> part = element == 0 ? first : left(row, (k + element) / kElements);
#pragma unroll
    for (int i = 0; i < kElements; ++i) joined.at[element + i] = part.at[i];
  }
  return joined;
}

// kPack consecutive elements of a row, from element k on, a multiple of kPack: one or several of
// the packs that make up the row.
template <int kPack, class Left>
__device__ __forceinline__ auto LoadPack(const Left& left, int row, int k, int) {
  constexpr int kElements = sizeof(left(0, 0).at) / sizeof(left(0, 0).at[0]);
  return JoinPacks<kPack>(left(row, k / kElements), left, row, k);
}
