// Each row is multiplied by a matrix of its own choice, on tensor cores: the row's slot is the
// number of the matrix in a bank of matrices. A block, or a cluster of blocks that divide the depth
// among them, computes a tile of rows and columns. The block sorts its rows into groups of up to 16
// rows that share a slot. So a tile whose rows use few slots costs few products, and rows without a
// slot cost nothing. The groups, the columns, and the depth are divided among the warps.
//
// Only the sums pass through shared memory; operands are loaded straight into registers. Four
// threads share a row. Each takes kPack consecutive elements of the row and the elements of the
// matrix that these are multiplied by, so that every load is a vector.

// The sizes of a tile. A warp's columns form pairs of pieces: one piece has 8 even columns, the
// other the odd columns next to them, so that one load reads an even column and its odd neighbor.
template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kGroupWarps_, int kColumnWarps_,
          int kDepthWarps_, int kClusterBlocks_ = 1>
struct SlotShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kGroupWarps = kGroupWarps_, kColumnWarps = kColumnWarps_;
  static constexpr int kDepthWarps = kDepthWarps_;
  static constexpr int kClusterBlocks = kHasClusters ? kClusterBlocks_ : 1;
  static constexpr int kThreads = 32 * kGroupWarps * kColumnWarps * kDepthWarps;
  static constexpr int kPairs = kColumns / kColumnWarps / 16;  // of a warp

  struct alignas(16) Memory {
    float sums[kDepthWarps][kRows][kColumns + 8];
    int slots[kRows];           // of rows, -1 for none
    int groups;                 // the number of groups
    int group_of_row[kRows];    // the group that begins with a row
    int group_slots[kRows];     // the slot of each group
    int group_rows[kRows][16];  // the rows of each group, then -1
  };
};

// One matrix of a bank: [depth, columns], or [columns, depth] if kTransposed.
template <bool kTransposed, class T>
struct SlotMatrix {
  const T* elements;
  int columns, depth;

  __device__ __forceinline__ T At(int k, int column) const {
    return elements[kTransposed ? static_cast<long long>(column) * depth + k
                                : static_cast<long long>(k) * columns + column];
  }
};

// A range of the terms of a sum; `end` is exclusive.
struct TermRange {
  int begin, end;
};

// The terms that this block multiplies.
template <class Shape, int kPack>
__device__ __forceinline__ TermRange TermsOfBlock(int depth) {
  if constexpr (Shape::kClusterBlocks > 1) {
    constexpr int kStep = 4 * kPack;  // terms of the four threads of a row
    const int steps = (depth + kStep - 1) / kStep, block = blockIdx.x % Shape::kClusterBlocks;
    return {steps * block / Shape::kClusterBlocks * kStep,
            min(steps * (block + 1) / Shape::kClusterBlocks * kStep, depth)};
  }
  return {0, depth};
}

// Sorts the rows into groups; `slot` is the slot of row threadIdx.x. All threads of the block must
// call this together; it synchronizes them.
template <class Shape>
__device__ __forceinline__ void GroupRows(int slot, typename Shape::Memory& memory) {
  const int row = threadIdx.x;
  const bool is_row = row < Shape::kRows;
  if (is_row) memory.slots[row] = slot;
  if (row == 0) memory.groups = 0;
  __syncthreads();
  // This shortcut is common: the rows of one request mostly use the same slot.
  const int first_slot = memory.slots[0];
  if (__syncthreads_and(!is_row || (slot == first_slot && slot >= 0))) {
    if (is_row) memory.group_rows[row / 16][row % 16] = row;
    if (row < Shape::kRows / 16) memory.group_slots[row] = slot;
    if (row == 0) memory.groups = Shape::kRows / 16;
    __syncthreads();
    return;
  }
  int before = 0, leader = row;  // earlier rows of the slot; the first row of this row's group
  if (is_row) {
#pragma unroll
    for (int i = 0; i < 16; ++i) memory.group_rows[row][i] = -1;
#pragma unroll
    for (int other = 0; other < Shape::kRows; ++other) {
      const bool counts = other < row && memory.slots[other] == slot;
      leader = counts && before % 16 == 0 ? other : leader;
      before += counts;
    }
    if (slot >= 0 && before % 16 == 0) {
      leader = row;
      const int group = atomicAdd(&memory.groups, 1);
      memory.group_of_row[row] = group;
      memory.group_slots[group] = slot;
    }
  }
  __syncthreads();
  if (is_row && slot >= 0) memory.group_rows[memory.group_of_row[leader]][before % 16] = row;
  __syncthreads();
}

#ifdef __CUDACC__
// Loads kPack terms, from `k` on, of columns `column` (an even number) and `column` + 1 as words.
// They are zeros outside of the matrix.
template <int kPack, bool kTransposed, class T, int kWords>
__device__ __forceinline__ void LoadColumns(const SlotMatrix<kTransposed, T>& matrix, int column,
                                            int k, unsigned (&even)[kWords],
                                            unsigned (&odd)[kWords]) {
  if (k >= matrix.depth || column >= matrix.columns) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) even[i] = odd[i] = 0;
  } else if constexpr (kTransposed) {
    const T* const place = matrix.elements + static_cast<long long>(column) * matrix.depth + k;
    ToWords<kPack>(LoadVector<kPack>(place), even);
    ToWords<kPack>(LoadVector<kPack>(place + matrix.depth), odd);
  } else {
    const T* const place = matrix.elements + static_cast<long long>(k) * matrix.columns + column;
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const auto pair = LoadVector<2>(place + i * matrix.columns);
        even[i] = __float_as_uint(pair.at[0]);
        odd[i] = __float_as_uint(pair.at[1]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        unsigned rows[2];
#pragma unroll
        for (int row = 0; row < 2; ++row)
          ToWords<2>(LoadVector<2>(place + (2 * i + row) * matrix.columns),
                     reinterpret_cast<unsigned(&)[1]>(rows[row]));
        even[i] = __byte_perm(rows[0], rows[1], 0x5410);
        odd[i] = __byte_perm(rows[0], rows[1], 0x7632);
      }
    }
  }
}

// sums += a x b for one piece and kWords words of depth per thread. `upper` and `lower` are the
// words of the thread's two rows of a; element 1 of each array holds the rounding errors of TF32,
// which only 3xTF32 uses.
template <Arithmetic kArithmetic, int kWords>
__device__ __forceinline__ void MultiplyPacks(float (&sums)[4], const unsigned (&upper)[2][kWords],
                                              const unsigned (&lower)[2][kWords],
                                              const unsigned (&columns)[2][kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; i += 2) {
    const auto multiply = [&](int of_rows, int of_columns) {
      const unsigned a[4] = {upper[of_rows][i], lower[of_rows][i], upper[of_rows][i + 1],
                             lower[of_rows][i + 1]};
      const unsigned b[2] = {columns[of_columns][i], columns[of_columns][i + 1]};
      MultiplyPiece<kArithmetic>(sums, a, b);
    };
    // The small products come first.
    if constexpr (kArithmetic == Arithmetic::kSplitTf32) {
      multiply(1, 0);
      multiply(0, 1);
    }
    multiply(0, 0);
  }
}

// sums += the products of a group's rows and the matrix of its slot. `rows` are the two rows of
// this thread, -1 for none. Tensor cores round sums toward zero, so only a few terms are summed
// from zero, and then added in float, which rounds to nearest.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
__device__ __forceinline__ void MultiplyGroup(const Left& left, const int (&rows)[2],
                                              const SlotMatrix<kTransposed, T>& matrix,
                                              int first_column, TermRange terms, int depth_warp,
                                              float (&sums)[Shape::kPairs][2][4]) {
  constexpr int kWords = kPack * sizeof(T) / 4;
#pragma unroll 4
  for (int begin = terms.begin + depth_warp * 4 * kPack; begin < terms.end;
       begin += Shape::kDepthWarps * 4 * kPack) {
    const int k = begin + threadIdx.x % 4 * kPack;
    // The words, and their rounding errors of TF32.
    unsigned upper[2][kWords] = {}, lower[2][kWords] = {};
    if (rows[0] >= 0 && k < matrix.depth)
      ToWords<kPack>(LoadPack<kPack>(left, rows[0], k, matrix.depth), upper[0]);
    if (rows[1] >= 0 && k < matrix.depth)
      ToWords<kPack>(LoadPack<kPack>(left, rows[1], k, matrix.depth), lower[0]);
    SplitWords<Shape::kArithmetic>(upper[0], upper[1]);
    SplitWords<Shape::kArithmetic>(lower[0], lower[1]);
#pragma unroll
    for (int pair = 0; pair < Shape::kPairs; ++pair) {
      unsigned even[2][kWords], odd[2][kWords];
      LoadColumns<kPack>(matrix, first_column + 16 * pair + threadIdx.x % 32 / 4 * 2, k, even[0],
                         odd[0]);
      SplitWords<Shape::kArithmetic>(even[0], even[1]);
      SplitWords<Shape::kArithmetic>(odd[0], odd[1]);
      float some[2][4] = {};
      MultiplyPacks<Shape::kArithmetic>(some[0], upper, lower, even);
      MultiplyPacks<Shape::kArithmetic>(some[1], upper, lower, odd);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[pair][i / 4][i % 4] += some[i / 4][i % 4];
    }
  }
}
#else
// Computes the same sums without tensor cores.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
void MultiplyGroup(const Left& left, const int (&rows)[2], const SlotMatrix<kTransposed, T>& matrix,
                   int first_column, TermRange terms, int depth_warp,
                   float (&sums)[Shape::kPairs][2][4]) {
  for (int begin = terms.begin + depth_warp * 4 * kPack; begin < terms.end;
       begin += Shape::kDepthWarps * 4 * kPack) {
    for (int k = begin; k < begin + 4 * kPack && k < matrix.depth; k += kPack) {
      for (int half = 0; half < 2; ++half) {
        if (rows[half] < 0) continue;
        const auto pack = LoadPack<kPack>(left, rows[half], k, matrix.depth);
        for (int pair = 0; pair < Shape::kPairs; ++pair) {
          for (int i = 0; i < 4; ++i) {
            const int column = first_column + 16 * pair + threadIdx.x % 4 * 4 + i;
            if (column >= matrix.columns) continue;
            for (int term = 0; term < kPack; ++term) {
              sums[pair][i % 2][2 * half + i / 2] +=
                  ToFloat(pack.at[term]) * ToFloat(matrix.At(k + term, column));
            }
          }
        }
      }
    }
  }
}
#endif

// memory.sums = the tile, in kDepthWarps parts per block, which SlotSums adds up. `slot` is the
// slot of row threadIdx.x of the tile, -1 for none; `left` are the tile's rows. The tile begins at
// column `first_column` of the bank's matrices.
template <class Shape, int kPack, bool kTransposed, class Left, class T>
__device__ __forceinline__ void MultiplyBySlots(const Left& left, int slot, const T* bank,
                                                int first_column, int columns, int depth,
                                                typename Shape::Memory& memory) {
  GroupRows<Shape>(slot, memory);
  const int warp = threadIdx.x / 32, depth_warp = warp % Shape::kDepthWarps;
  const int warp_column = warp / Shape::kDepthWarps % Shape::kColumnWarps * (16 * Shape::kPairs);
  for (int group = warp / (Shape::kDepthWarps * Shape::kColumnWarps); group < memory.groups;
       group += Shape::kGroupWarps) {
    const int rows[2] = {memory.group_rows[group][threadIdx.x % 32 / 4],
                         memory.group_rows[group][threadIdx.x % 32 / 4 + 8]};
    const SlotMatrix<kTransposed, T> matrix = {
        bank + static_cast<long long>(memory.group_slots[group]) * columns * depth, columns, depth};
    float sums[Shape::kPairs][2][4] = {};
    MultiplyGroup<Shape, kPack>(left, rows, matrix, first_column + warp_column,
                                TermsOfBlock<Shape, kPack>(depth), depth_warp, sums);
#pragma unroll
    for (int i = 0; i < Shape::kPairs * 8; ++i) {
      const int half = i / 4 % 2, column = warp_column + i / 8 * 16 + threadIdx.x % 4 * 4 + i % 4;
      if (rows[half] >= 0)
        memory.sums[depth_warp][rows[half]][column] = sums[i / 8][i % 2][2 * half + i % 4 / 2];
    }
  }
  AwaitSums<Shape>();
}

// kCount consecutive sums of a row of the tile, from its column `column` on. Float sums that are
// not finite are computed again, term by term, for the reason that PlainUnlessFinite gives
// (tile_memory.cuh).
template <class Shape, int kPack, int kCount, bool kTransposed, class Left, class T>
__device__ __forceinline__ Vector<float, kCount> SlotSums(const typename Shape::Memory& memory,
                                                          int row, int column, const Left& left,
                                                          const T* bank, int first_column,
                                                          int columns, int depth) {
  Vector<float, kCount> sums = {};
  const int slot = memory.slots[row];
  if (slot < 0) return sums;
  for (int part = 0; part < Shape::kDepthWarps; ++part) {
    const float* own = &memory.sums[part][row][column];
    const Vector<float, kCount> more = Shape::kClusterBlocks > 1
                                           ? SumOfBlocks<Shape::kClusterBlocks, kCount>(own)
                                           : LoadVector<kCount>(own);
    for (int i = 0; i < kCount; ++i) sums.at[i] += more.at[i];
  }
  if constexpr (kIsOfFloats<Shape::kArithmetic>) {
    const SlotMatrix<kTransposed, T> matrix = {
        bank + static_cast<long long>(slot) * columns * depth, columns, depth};
    for (int i = 0; i < kCount; ++i) {
      if (IsFinite(sums.at[i])) continue;
      float plain = 0.0f;
#pragma unroll 1
      for (int k = 0; k < depth; k += kPack) {
        const auto pack = LoadPack<kPack>(left, row, k, depth);
        for (int term = 0; term < kPack; ++term)
          plain += pack.at[term] * matrix.At(k + term, first_column + column + i);
      }
      sums.at[i] = plain;
    }
  }
  return sums;
}
