// Updates whose places are in no order. The rows of a block are those from its first one on, at
// most 32; each warp looks through some of the updates, one per thread at a time (a chunk).

// The row of the block at which an update is placed, or 1 << kBits if it is a row of another block.
template <int kRows, int kBits>
__device__ __forceinline__ int RowOfBlock(long long place, long long first_row) {
  const long long row = place - first_row;
  return row >= 0 && row < kRows ? static_cast<int>(row) : 1 << kBits;
}

// Adds a warp's updates to its `counts` of each row, and sets `ranks`: how many updates of the same
// row the warp has before this one. `rows` are those of this thread's updates. All lanes must call
// this together.
template <int kBits, int kChunks>
__device__ __forceinline__ void CountUpdates(const int (&rows)[kChunks], int (&ranks)[kChunks],
                                             unsigned short* counts) {
  #pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    ranks[i] = 0;
    if (__ballot_sync(~0u, rows[i] < 1 << kBits) != 0)
      ranks[i] = CountDigit<kBits>(rows[i], counts);
  }
}

// Lists the updates of a warp in `order`, those of each row side by side, and those of a row in the
// order that they have; sets `begins`, where those of each row begin. The counts are those of all
// warps. All lanes must call this together; `first` is the number of this thread's first update.
template <int kRows, int kChunks, int kWarps, int kNumbers>
__device__ __forceinline__ void ListUpdates(const int (&rows)[kChunks], const int (&ranks)[kChunks],
                                            const unsigned short (&counts)[kWarps][kNumbers],
                                            int first, unsigned short* order, int* begins) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = 0, count = 0;  // of row number `lane`: in earlier warps, and in all
  #pragma unroll
  for (int other = 0; other < kWarps; ++other) {
    const int updates = lane < kRows ? counts[other][lane] : 0;
    if (other < warp) before += updates;
    count += updates;
  }
  int end = count;
  #pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(~0u, end, distance);
    if (lane >= distance) end += below;
  }
  const int begin = end - count;
  if (warp == 0 && lane < kRows) begins[lane] = begin;
  if (warp == 0 && lane + 1 == kRows) begins[kRows] = end;
  #pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const bool is_here = rows[i] < kNumbers - 1;
    if (__ballot_sync(~0u, is_here) == 0) continue;
    const int place = __shfl_sync(~0u, begin + before, rows[i] % 32) + ranks[i];
    if (is_here) order[place] = static_cast<unsigned short>(first + i * 32);
  }
}
