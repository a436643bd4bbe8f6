// Functions that all kernels for tiles of the product a x b^T share: they copy chunks of rows to
// shared memory, and read the finished sums from there.

// Whether the kernel computes the left operand itself (made_operand.cuh) instead of reading it.
template <class Left>
constexpr bool kIsMade = true;
template <class T>
constexpr bool kIsMade<const T*> = false;

// Starts to copy chunk number `chunk`, Shape::kChunkBytes of each of kRows rows, to the addresses
// that `to.at(row, word)` returns. `rows` rows with `row_bytes` bytes each exist; the bytes beyond
// a row's end and the rows beyond the last one become zeros. Nothing is read for these zeros;
// otherwise all blocks would wait for the same few cache lines.
template <class Shape, int kCopyBytes, int kRows, class Rows, class T>
__device__ __forceinline__ void LoadChunk(Rows& to, const T* from, int rows, int row_bytes,
                                          int chunk) {
  constexpr int kCopies = Shape::kChunkBytes / kCopyBytes;  // per row
  constexpr int kPlaces = kCopies < Shape::kThreads ? kCopies : Shape::kThreads;
  constexpr int kRowStep = Shape::kThreads / kPlaces;
  const int thread = threadIdx.x % Shape::kThreads;  // lets the compiler know its range
#pragma unroll
  for (int copy = 0; copy < kCopies / kPlaces; ++copy) {
    const int place = (copy * kPlaces + thread % kPlaces) * kCopyBytes;
    const int offset = chunk * Shape::kChunkBytes + place;
    const bool inside = offset < row_bytes;
#pragma unroll
    for (int first = 0; first < kRows; first += kRowStep) {
      const int row = first + thread / kPlaces;
      if (first + kRowStep > kRows && row >= kRows) continue;
      const char* source =
          reinterpret_cast<const char*>(from) + offset + static_cast<long long>(row) * row_bytes;
      CopyAsync<kCopyBytes, Shape::kBypass>(
          reinterpret_cast<char*>(to.at(row, place / 4)) + place % 4, source, inside && row < rows);
    }
  }
}

// The addend of a product without one. (An addend is added to the sums of a tile while warps hold
// them in registers.)
struct NoAddend {
  static constexpr bool kHasChunks = false;  // for warpgroup tiles
  __device__ __forceinline__ static constexpr int ChunkCount() { return 0; }
  template <class Shape>
  __device__ __forceinline__ void FillStages(int, typename Shape::Memory&) const {}
  template <int kPieces>
  __device__ __forceinline__ void AddTo(float (&)[kPieces][4], int, int) const {}
  __device__ __forceinline__ float At(int, int) const { return 0.0f; }
};

// One sum of the tile: it adds up the parts of the warps that divide the depth among them.
template <class Shape>
__device__ __forceinline__ float TileSum(const typename Shape::Memory& memory, int row,
                                         int column) {
  float sum = memory.sums[0][row][column];
  for (int part = 1; part < Shape::kDepthWarps; ++part) sum += memory.sums[part][row][column];
  return sum;
}

// kCount consecutive sums from `column` on, a multiple of kCount: each adds up the parts of the
// warps that divide the depth among them.
template <class Shape, int kCount>
__device__ __forceinline__ Vector<float, kCount> TileSums(const typename Shape::Memory& memory,
                                                          int row, int column) {
  Vector<float, kCount> sums = LoadVector<kCount>(&memory.sums[0][row][column]);
  for (int part = 1; part < Shape::kDepthWarps; ++part) {
    const Vector<float, kCount> more = LoadVector<kCount>(&memory.sums[part][row][column]);
    for (int i = 0; i < kCount; ++i) sums.at[i] += more.at[i];
  }
  return sums;
}

// Corrects sums that are not finite. An infinity cannot be split into two TF32 numbers, so that its
// products may have become NaN; such a sum is computed again in float, term by term. `sums` are
// those of one row of `a` and kCount consecutive rows of `b`; `a_at(k)` is element k of the row of
// `a`, and `b` points to the first of the rows of `b`. This is rare, so the loop is short rather
// than fast.
template <int kCount, class Element>
__device__ __forceinline__ Vector<float, kCount> PlainUnlessFinite(Vector<float, kCount> sums,
                                                                   const Element& a_at,
                                                                   const float* b, int depth) {
  bool finite = true;
  for (int i = 0; i < kCount; ++i) finite = finite && IsFinite(sums.at[i]);
  if (finite) return sums;
  float plain[kCount] = {};
#pragma unroll 1
  for (int k = 0; k < depth; ++k) {
    for (int i = 0; i < kCount; ++i) plain[i] += a_at(k) * b[static_cast<long long>(i) * depth + k];
  }
  for (int i = 0; i < kCount; ++i) {
    if (!IsFinite(sums.at[i])) sums.at[i] = plain[i];
  }
  return sums;
}

// The same if the row of `a` is in memory.
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> PlainUnlessFinite(Vector<float, kCount> sums,
                                                                   const float* a, const float* b,
                                                                   int depth) {
  return PlainUnlessFinite(
      sums, [=](int k) { return a[k]; }, b, depth);
}

// The same for a single sum.
template <class Row>
__device__ __forceinline__ float PlainUnlessFinite(float sum, const Row& a, const float* b,
                                                   int depth) {
  return PlainUnlessFinite(Vector<float, 1>{{sum}}, a, b, depth).at[0];
}
