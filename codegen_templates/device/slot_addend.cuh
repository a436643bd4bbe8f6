// The contribution of low-rank adapters to the sums of a layer, on tensor cores: each row times the
// matrix of a bank that the row's slot selects.
//
// In warp tiles (SlotAddend), a warp adds it while it holds the sums of 16 rows in registers; that
// costs one small product for each different slot of these rows, and nothing for rows without a
// slot. In warpgroup tiles (SlotChunks), the tile gets additional depth: the terms of each slot
// that its rows use follow the terms of the layer, and a row has zeros in the terms of all slots
// but its own.

// The operands of a tile: its rows, of `depth` terms each; the slot of each row, -1 for none; the
// bank of matrices [all_columns, depth]; and the column of these at which the tile begins.
template <Arithmetic kArithmetic, class T>
struct SlotAddend {
  static constexpr int kPack = 4, kStep = 4 * kPack;  // terms per thread; per small product

  const T* rows;
  const int* slots;
  const T* bank;
  int first_column, all_columns, depth;

  // Points to the terms of a column of the tile in the matrix of a slot.
  __device__ __forceinline__ const T* ColumnOf(int slot, int column) const {
    return bank + (static_cast<long long>(slot) * all_columns + first_column + column) * depth;
  }
  __device__ __forceinline__ bool HasColumn(int column) const {
    return first_column + column < all_columns;
  }
  // The addend of the sum at `row` and `column` of the tile.
  __device__ float At(int row, int column) const {
    float sum = 0.0f;
    if (slots[row] < 0 || !HasColumn(column)) return sum;
    for (int k = 0; k < depth; ++k)
      sum += ToFloat(rows[row * depth + k]) * ToFloat(ColumnOf(slots[row], column)[k]);
    return sum;
  }

#ifdef __CUDACC__
  // Loads kPack terms of a row or a column, from `k` on, as words; they are zeros if they do not
  // exist.
  __device__ __forceinline__ void LoadWords(const T* from, int k, bool exists, unsigned& first,
                                            unsigned& second) const {
    uint2 words = make_uint2(0, 0);
    if (exists && k < depth) words = *reinterpret_cast<const uint2*>(from + k);
    first = words.x, second = words.y;
  }

  // sums += rows x matrix of `slot`, for those of 16 rows that have this slot.
  template <int kPieces>
  __device__ __forceinline__ void AddMatrix(float (&sums)[kPieces][4], int row, int column,
                                            int slot) const {
    const int upper = row + threadIdx.x % 32 / 4, lower = upper + 8;
    const int first = threadIdx.x % 4 * kPack;
    const bool has_upper = slots[upper] == slot, has_lower = slots[lower] == slot;
    for (int k = first; k - first < depth; k += kStep) {
      unsigned a[4], b[kPieces][2];
      LoadWords(rows + upper * depth, k, has_upper, a[0], a[2]);
      LoadWords(rows + lower * depth, k, has_lower, a[1], a[3]);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int at = column + 8 * i + threadIdx.x % 32 / 4;
        LoadWords(ColumnOf(slot, at), k, HasColumn(at), b[i][0], b[i][1]);
      }
#pragma unroll
      for (int i = 0; i < kPieces; ++i) MultiplyPiece<kArithmetic>(sums[i], a, b[i]);
    }
  }

  // Adds the addend to the sums of a warp: those of 16 rows from `row` on, in pieces of 8 columns
  // from `column` on, in the layout of mma.sync. Prefetching the next matrix made this slower.
  template <int kPieces>
  __device__ __forceinline__ void AddTo(float (&sums)[kPieces][4], int row, int column) const {
    AwaitEarlierKernels();  // the rows may be those of a kernel that still runs
    const int own = slots[row + threadIdx.x % 16];
    unsigned left = __ballot_sync(~0u, own >= 0);
    while (left != 0) {
      const int slot = __shfl_sync(~0u, own, __ffs(left) - 1);
      left &= ~__ballot_sync(~0u, own == slot);
      AddMatrix(sums, row, column, slot);
    }
  }
#else
  // Computes the same without tensor cores.
  template <int kPieces>
  void AddTo(float (&sums)[kPieces][4], int row, int column) const {
    for (int i = 0; i < 4 * kPieces; ++i) {
      sums[i / 4][i % 4] += At(row + threadIdx.x % 32 / 4 + i % 4 / 2 * 8,
                               column + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2);
    }
  }
#endif
};

template <Arithmetic kArithmetic, class T>
__device__ __forceinline__ SlotAddend<kArithmetic, T> AddendOfSlots(const T* rows, const int* slots,
                                                                    const T* bank, int first_column,
                                                                    int all_columns, int depth) {
  return {rows, slots, bank, first_column, all_columns, depth};
}

// The set of slots that the rows of a tile use; `slots` lists each slot once, in any order.
template <int kRows, int kSlots>
struct NamedSlots {
  static constexpr int kWords = (kSlots + 31) / 32;

  unsigned is_named[kWords];  // one bit per slot
  int count;
  int slots[kRows];
};

// Empties the set. All threads of the block must call this together; it synchronizes them.
template <int kRows, int kSlots>
__device__ __forceinline__ void ClearSlots(NamedSlots<kRows, kSlots>& named) {
  for (int i = threadIdx.x; i < named.kWords; i += blockDim.x) named.is_named[i] = 0;
  if (threadIdx.x == 0) named.count = 0;
  __syncthreads();
}

// Adds the slot of row threadIdx.x to the set, unless it is -1. All threads of the block must call
// this.
template <int kRows, int kSlots>
__device__ __forceinline__ void NameSlot(NamedSlots<kRows, kSlots>& named, int slot) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const unsigned same = __match_any_sync(~0u, slot);
  if (slot < 0 || __ffs(same) - 1 != threadIdx.x % 32) return;
  const unsigned bit = 1u << slot % 32;
  if ((atomicOr(&named.is_named[slot / 32], bit) & bit) == 0)
    named.slots[atomicAdd(&named.count, 1)] = slot;
#endif
}

// The same addend as additional chunks of a warpgroup tile (matmul_warpgroup.cuh). `depth`, the
// number of terms per slot, is a multiple of 8.
template <int kRows, int kSlots, Arithmetic kArithmetic, class T>
struct SlotChunks : SlotAddend<kArithmetic, T> {
  static constexpr bool kHasChunks = true;
  static constexpr int kThreads = 128;  // the threads that copy
  static constexpr int kTerms = 8;      // in 16 bytes
  static constexpr int kPieces = 8;     // of 16 bytes, per row of a chunk
  static constexpr int kChunkTerms = kPieces * kTerms;

  const NamedSlots<kRows, kSlots>* named;

  __device__ __forceinline__ int ChunkCount() const {
    return (named->count * this->depth + kChunkTerms - 1) / kChunkTerms;
  }

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  // Starts to copy a chunk: the tile's rows to `a`, and the columns of the bank's matrices to `b`.
  template <class Left, class Right>
  __device__ __forceinline__ void CopyChunk(Left& a, Right& b, int chunk, int columns) const {
    const int thread = threadIdx.x % kThreads, piece = thread % kPieces;
    const int term = chunk * kChunkTerms + piece * kTerms;
    const int place = term / this->depth, k = term - place * this->depth;
    const bool exists = place < named->count;
    const int slot = exists ? named->slots[place] : 0;
#pragma unroll 4
    for (int row = thread / kPieces; row < kRows; row += kThreads / kPieces) {
      CopyAsync<16>(a.at(row, 4 * piece), this->rows + row * this->depth + k,
                    exists && this->slots[row] == slot);
    }
#pragma unroll 4
    for (int column = thread / kPieces; column < columns; column += kThreads / kPieces) {
      CopyAsync<16>(b.at(column, 4 * piece), this->ColumnOf(slot, column) + k,
                    exists && this->HasColumn(column));
    }
  }

  // Fills the stages of a tile with the chunks of the addend, which follow `chunks` other chunks.
  template <class Shape>
  __device__ __forceinline__ void FillStages(int chunks, typename Shape::Memory& memory) const {
    const int end = chunks + ChunkCount();
    if (end > chunks) AwaitEarlierKernels();  // the rows may be those of a kernel that still runs
    for (int chunk = chunks; chunk < end; ++chunk) {
      const int stage = chunk % Shape::kStages, round = chunk / Shape::kStages;
      auto& filled = memory.filled[stage];
      if (round > 0) memory.used[stage].Await((round - 1) % 2);
      CopyChunk(memory.chunks[stage].a, memory.chunks[stage].b[0], chunk - chunks, Shape::kColumns);
      if (threadIdx.x % kThreads == 0) filled.Arrive();  // otherwise done by CopyPanels
      filled.ArriveAfterCopies();
    }
  }
#endif
};

template <Arithmetic kArithmetic, int kRows, int kSlots, class T>
__device__ __forceinline__ SlotChunks<kRows, kSlots, kArithmetic, T> ChunksOfSlots(
    const T* rows, const int* slots, const NamedSlots<kRows, kSlots>& named, const T* bank,
    int first_column, int all_columns, int depth) {
  return {{rows, slots, bank, first_column, all_columns, depth}, &named};
}
