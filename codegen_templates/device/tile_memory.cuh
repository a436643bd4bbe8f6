// What kernels for tiles of the product a x b^T have in common: chunks of rows on their way to
// shared memory, and the sums that stand there in the end.

// Whether what is multiplied from the left is made by a function (made_operand.cuh), not read from
// memory.
template <class Left>
constexpr bool kIsMade = true;
template <class T>
constexpr bool kIsMade<const T*> = false;

// Copies chunk number `chunk`, Shape::kChunkBytes of each of kRows rows, to where `to` has a place
// `at` each row and word. `rows` of them and `row_bytes` of each exist; behind a row's end and
// behind the last row stand zeros, without a read: all blocks would wait for the same few lines.
template <class Shape, int kCopyBytes, int kRows, class Rows, class T>
__device__ __forceinline__ void LoadChunk(Rows& to, const T* from, int rows, int row_bytes,
                                          int chunk) {
  constexpr int kCopies = Shape::kChunkBytes / kCopyBytes;  // of a row
  constexpr int kPlaces = kCopies < Shape::kThreads ? kCopies : Shape::kThreads;
  constexpr int kRowStep = Shape::kThreads / kPlaces;
  const int thread = threadIdx.x % Shape::kThreads;  // as it is, but known to be below
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

template <class Shape>
__device__ __forceinline__ float TileSum(const typename Shape::Memory& memory, int row,
                                         int column) {
  float sum = memory.sums[0][row][column];
  for (int part = 1; part < Shape::kDepthWarps; ++part) sum += memory.sums[part][row][column];
  return sum;
}

// Neighbours from `column` on, a multiple of their count.
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

// `sums` of a row of `a` and neighbouring rows of `b`, or, where one is not finite, the same sum of
// plain products: an infinity has no second part, and infinity times a second part of zero is NaN.
// `a_at` says an element of a's row, and `b` is the first one's. This is rare, so that its loop is
// short rather than fast.
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
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> PlainUnlessFinite(Vector<float, kCount> sums,
                                                                   const float* a, const float* b,
                                                                   int depth) {
  return PlainUnlessFinite(
      sums, [=](int k) { return a[k]; }, b, depth);
}
// As above, for one sum.
template <class Row>
__device__ __forceinline__ float PlainUnlessFinite(float sum, const Row& a, const float* b,
                                                   int depth) {
  return PlainUnlessFinite(Vector<float, 1>{{sum}}, a, b, depth).at[0];
}
