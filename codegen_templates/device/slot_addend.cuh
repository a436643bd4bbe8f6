// What low-rank adapters add to the sums of a layer: rows times the matrices of a bank that the
// rows' slots name, on tensor cores. It is added while a warp has the sums of 16 rows in registers,
// and costs as many small products as these rows name different slots; rows without a slot cost
// nothing.

// Of a tile: its rows, `depth` terms each, and of these the slots, -1 for none; the bank, of
// matrices [all_columns, depth], and the tile's first column in them.
template <Arithmetic kArithmetic, class T>
struct SlotAddend {
  static constexpr int kPack = 4, kStep = 4 * kPack;  // terms of a thread; of a small product

  const T* rows;
  const int* slots;
  const T* bank;
  int first_column, all_columns, depth;

  // Where the matrix of a slot has its terms for a column of the tile.
  __device__ __forceinline__ const T* ColumnOf(int slot, int column) const {
    return bank + (static_cast<long long>(slot) * all_columns + first_column + column) * depth;
  }
  __device__ __forceinline__ bool HasColumn(int column) const {
    return first_column + column < all_columns;
  }
  // Element number `column` of row number `row` of what is added.
  __device__ float At(int row, int column) const {
    float sum = 0.0f;
    if (slots[row] < 0 || !HasColumn(column)) return sum;
    for (int k = 0; k < depth; ++k)
      sum += ToFloat(rows[row * depth + k]) * ToFloat(ColumnOf(slots[row], column)[k]);
    return sum;
  }

#ifdef __CUDACC__
  // kPack terms from `k` on of a row or a column, as words; zeros where there are none.
  __device__ __forceinline__ void LoadWords(const T* from, int k, bool exists, unsigned& first,
                                            unsigned& second) const {
    uint2 words = make_uint2(0, 0);
    if (exists && k < depth) words = *reinterpret_cast<const uint2*>(from + k);
    first = words.x, second = words.y;
  }

  // sums += what the matrix of `slot` makes of those of 16 rows that name it.
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

  // Adds to the sums of the warp: those of 16 rows from `row` on, in pieces of 8 columns from
  // `column` on, as for mma.sync. To have the next matrix on its way meanwhile made it slower.
  template <int kPieces>
  __device__ __forceinline__ void AddTo(float (&sums)[kPieces][4], int row, int column) const {
    const int own = slots[row + threadIdx.x % 16];
    unsigned left = __ballot_sync(~0u, own >= 0);
    while (left != 0) {
      const int slot = __shfl_sync(~0u, own, __ffs(left) - 1);
      left &= ~__ballot_sync(~0u, own == slot);
      AddMatrix(sums, row, column, slot);
    }
  }
#else
  // The same without tensor cores.
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
