// A left operand that a product's kernel makes itself. The kernel defines a function for it:
// `left(row, pack)` returns a Vector of neighbours in a row, number `pack` of those that make up
// the row.

// Makes a chunk of a Shape's rows (FillChunk). Each thread makes the packs of one place in the
// chunk's rows, kTogether of them in registers at a time: with twice as many, blocks of 128 rows
// took a third longer on an H200. Unless kWhole, the last of the `rows` rows stands in for missing
// ones, and zeros stand behind `row_bytes`; that costs instructions.
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

// Makes chunk number `chunk` of the rows and stores it where `to.at(row, word)` says. At least one
// row exists, `rows` of them, with `row_bytes` bytes each.
template <class Shape, class Rows, class Left>
__device__ __forceinline__ void FillChunk(Shape, Rows& to, const Left& left, int rows,
                                          int row_bytes, int chunk) {
  if (rows >= Shape::kRows && (chunk + 1) * Shape::kChunkBytes <= row_bytes)
    MakeChunk<true, Shape>(to, left, rows, row_bytes, chunk);
  else
    MakeChunk<false, Shape>(to, left, rows, row_bytes, chunk);
}

// Word number `word` of a row, 32 bits.
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

// A function that returns an element of a row.
template <class Left>
__device__ __forceinline__ auto RowOf(const Left& left, int row) {
  constexpr int kElements = sizeof(left(0, 0).at) / sizeof(left(0, 0).at[0]);
  return [=](int k) { return left(row, k / kElements).at[k % kElements]; };
}

// kPack neighbours of a row from element k on, of which the first pack is there.
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

// kPack neighbours of a row from element k on, a multiple of kPack: one of the packs that make up
// the row, or several.
template <int kPack, class Left>
__device__ __forceinline__ auto LoadPack(const Left& left, int row, int k, int) {
  constexpr int kElements = sizeof(left(0, 0).at) / sizeof(left(0, 0).at[0]);
  return JoinPacks<kPack>(left(row, k / kElements), left, row, k);
}
