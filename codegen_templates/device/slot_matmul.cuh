// Rows times the matrices of a bank that their slots name, on tensor cores. A block makes a tile of
// 16 rows. Its warps lie side by side, and behind each other, where they share out the depth. Each
// goes through the slots that its rows name, and multiplies those rows by the slot's matrix: a tile
// whose rows name one slot costs one product, and rows without a slot cost nothing.
//
// Nothing passes through shared memory but the sums in the end. Four threads share a row; each takes
// kPack neighbours in it, and of the matrix what meets these, so that all loads are of neighbours.

// The sizes of a tile. A warp's columns lie in groups of 16: a piece of the even ones and one of the
// odd ones, so that two neighbours are one word.
template <Arithmetic kArithmetic_, int kColumns_, int kColumnWarps_, int kDepthWarps_>
struct SlotShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kRows = 16, kColumns = kColumns_;
  static constexpr int kColumnWarps = kColumnWarps_, kDepthWarps = kDepthWarps_;
  static constexpr int kThreads = 32 * kColumnWarps * kDepthWarps;
  static constexpr int kGroups = kColumns / kColumnWarps / 16;  // of columns of a warp

  struct alignas(16) Memory {
    float sums[kDepthWarps][kRows][kColumns + 8];
  };
};

// A bank's matrix [depth, columns], or [columns, depth] if kTransposed.
template <bool kTransposed, class T>
struct SlotMatrix {
  const T* elements;
  int columns, depth;
};

#ifdef __CUDACC__
// Elements as words.
template <int kPack, class T>
__device__ __forceinline__ void ToWords(const Vector<T, kPack>& pack,
                                        unsigned (&words)[kPack / 2]) {
  memcpy(words, &pack, sizeof(words));
}

// The words of columns `column` (even) and `column` + 1 that meet kPack terms from `k` on.
template <int kPack, bool kTransposed, class T>
__device__ __forceinline__ void LoadColumns(const SlotMatrix<kTransposed, T>& matrix, int column,
                                            int k, unsigned (&even)[kPack / 2],
                                            unsigned (&odd)[kPack / 2]) {
  if (k >= matrix.depth || column >= matrix.columns) {
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) even[i] = odd[i] = 0;
  } else if constexpr (kTransposed) {
    const T* const place = matrix.elements + static_cast<long long>(column) * matrix.depth + k;
    ToWords<kPack>(LoadVector<kPack>(place), even);
    ToWords<kPack>(LoadVector<kPack>(place + matrix.depth), odd);
  } else {
    const T* const place = matrix.elements + static_cast<long long>(k) * matrix.columns + column;
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) {
      unsigned rows[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const auto pair = LoadVector<2>(place + (2 * i + row) * matrix.columns);
        memcpy(&rows[row], &pair, sizeof(pair));
      }
      even[i] = __byte_perm(rows[0], rows[1], 0x5410);
      odd[i] = __byte_perm(rows[0], rows[1], 0x7632);
    }
  }
}

// Adds the products of the rows of the tile that `chosen` has bits for.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
__device__ __forceinline__ void AddRowsOfSlot(const Left& left, unsigned chosen,
                                              const SlotMatrix<kTransposed, T>& matrix,
                                              int first_column, int depth_warp,
                                              float (&sums)[Shape::kGroups][2][4]) {
  constexpr int kWords = kPack / 2;
  const int row = threadIdx.x % 32 / 4;
#pragma unroll 4
  for (int begin = depth_warp * 4 * kPack; begin < matrix.depth;
       begin += Shape::kDepthWarps * 4 * kPack) {
    const int k = begin + threadIdx.x % 4 * kPack;
    unsigned upper[kWords] = {}, lower[kWords] = {};
    if (chosen >> row & 1 && k < matrix.depth)
      ToWords<kPack>(LoadPack<kPack>(left, row, k, matrix.depth), upper);
    if (chosen >> (row + 8) & 1 && k < matrix.depth)
      ToWords<kPack>(LoadPack<kPack>(left, row + 8, k, matrix.depth), lower);
#pragma unroll
    for (int group = 0; group < Shape::kGroups; ++group) {
      unsigned even[kWords], odd[kWords];
      LoadColumns<kPack>(matrix, first_column + 16 * group + 2 * row, k, even, odd);
#pragma unroll
      for (int i = 0; i < kWords; i += 2) {
        const unsigned a[4] = {upper[i], lower[i], upper[i + 1], lower[i + 1]};
        const unsigned b_even[2] = {even[i], even[i + 1]}, b_odd[2] = {odd[i], odd[i + 1]};
        MultiplyPiece<Shape::kArithmetic>(sums[group][0], a, b_even);
        MultiplyPiece<Shape::kArithmetic>(sums[group][1], a, b_odd);
      }
    }
  }
}
#else
// The same sums without tensor cores.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
void AddRowsOfSlot(const Left& left, unsigned chosen, const SlotMatrix<kTransposed, T>& matrix,
                   int first_column, int depth_warp, float (&sums)[Shape::kGroups][2][4]) {
  for (int begin = depth_warp * 4 * kPack; begin < matrix.depth;
       begin += Shape::kDepthWarps * 4 * kPack) {
    for (int k = begin; k < begin + 4 * kPack && k < matrix.depth; k += kPack) {
      for (int half = 0; half < 2; ++half) {
        const int row = threadIdx.x % 32 / 4 + 8 * half;
        if (!(chosen >> row & 1)) continue;
        const auto pack = LoadPack<kPack>(left, row, k, matrix.depth);
        for (int group = 0; group < Shape::kGroups; ++group) {
          for (int i = 0; i < 4; ++i) {
            const int column = first_column + 16 * group + threadIdx.x % 4 * 4 + i;
            if (column >= matrix.columns) continue;
            for (int term = 0; term < kPack; ++term) {
              const long long place =
                  kTransposed ? static_cast<long long>(column) * matrix.depth + k + term
                              : static_cast<long long>(k + term) * matrix.columns + column;
              sums[group][i % 2][2 * half + i / 2] +=
                  ToFloat(pack.at[term]) * ToFloat(matrix.elements[place]);
            }
          }
        }
      }
    }
  }
}
#endif

// memory.sums = the tile, in kDepthWarps parts that are still to be added (tile_memory.cuh). `slot`
// is that of row threadIdx.x % 16 of the tile, -1 for none; `left` are the tile's rows. Of the
// bank's matrices it takes the columns from `first_column` on.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
__device__ __forceinline__ void MultiplyBySlots(const Left& left, int slot, const T* bank,
                                                int first_column, int columns, int depth,
                                                typename Shape::Memory& memory) {
  const int warp = threadIdx.x / 32, depth_warp = warp / Shape::kColumnWarps;
  const int warp_column = warp % Shape::kColumnWarps * (16 * Shape::kGroups);
  float sums[Shape::kGroups][2][4] = {};
  unsigned waiting = __ballot_sync(~0u, slot >= 0) & 0xffffu;  // rows
  while (waiting != 0) {
    const int chosen = __shfl_sync(~0u, slot, __ffs(static_cast<int>(waiting)) - 1);
    const unsigned rows = __ballot_sync(~0u, slot == chosen) & waiting;
    waiting &= ~rows;
    const SlotMatrix<kTransposed, T> matrix = {
        bank + static_cast<long long>(chosen) * columns * depth, columns, depth};
    float of_slot[Shape::kGroups][2][4] = {};
    AddRowsOfSlot<Shape, kPack>(left, rows, matrix, first_column + warp_column, depth_warp,
                                of_slot);
    // Other rows met the matrix as zeros, of which infinite weights make NaN.
#pragma unroll
    for (int i = 0; i < Shape::kGroups * 8; ++i) {
      if (rows >> (threadIdx.x % 32 / 4 + i % 4 / 2 * 8) & 1)
        sums[i / 8][i / 4 % 2][i % 4] = of_slot[i / 8][i / 4 % 2][i % 4];
    }
  }
#pragma unroll
  for (int group = 0; group < Shape::kGroups; ++group) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = threadIdx.x % 32 / 4 + 8 * half;
      const int column = warp_column + 16 * group + threadIdx.x % 4 * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        memory.sums[depth_warp][row][column + i] = sums[group][i % 2][2 * half + i / 2];
    }
  }
  __syncthreads();
}
