// The warpgroups of a block, or of a cluster of blocks that divide the depth among them (split-K),
// compute a tile of the product a x b^T. The depth (the axis that is summed over) is the innermost
// axis of both operands.
//
// The operands pass through shared memory in chunks of the depth as wide as a panel of `b`, in a
// pipeline of kStages stages. The last warpgroup fills the stages. It copies rows of `a` unchanged.
// `b` are weights, which the compiler has stored as panels of 64 columns: rounded, split, and in
// the layout of shared memory (compiler/plan/matmul/weight_panels.h); the warpgroup copies these
// panels. Each of the other warpgroups multiplies 64 rows by all columns of the tile, 64 columns at
// a time. It holds its rows of a chunk in registers, while tensor cores read the columns from
// shared memory; meanwhile it reads its rows of the next chunk. Split floats are converted to
// halves when they are read (split_half.cuh); each row has a unit of its own in each chunk.

// For rows of `a` that were not scaled: all factors are 1.
struct NoFactors {
  __device__ __forceinline__ static float UnitOf(int) { return 1.0f; }
};
// For rows of `a` that were scaled by one factor each, a power of two. `rows` factors exist.
struct RowFactors {
  const float* factors;
  int rows;

  __device__ __forceinline__ float UnitOf(int row) const {
    return row < rows ? 1.0f / factors[row] : 0.0f;
  }
};
__device__ __forceinline__ RowFactors FactorsOfRows(const float* factors, int rows) {
  return {factors, rows};
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Starts the products of a chunk. They are added to `sums` if `add` is true, and replace them
// otherwise.
template <class Shape>
__device__ __forceinline__ void StartProducts(const typename Shape::Chunk& chunk,
                                              const typename Shape::LeftWords& words,
                                              float (&sums)[Shape::kBlocks][8][4], bool add) {
  HoldLeft<Shape>(words);
  BeginProducts();
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) {
    StartPart<Shape>(chunk.b[0], 64 * block, words.parts[0], sums[block], add);
  }
  CloseProducts();
}

// sums = the products of `own` chunks and of the chunks of the addend, for 64 rows. With
// kReadsAhead, a thread reads its words of the next chunk while tensor cores work; otherwise it
// lacks the registers, and the other block on the multiprocessor keeps the tensor cores busy.
template <class Shape, bool kReadsAhead, class Addend>
__device__ __forceinline__ void MultiplyStages(int row, int own, typename Shape::Memory& memory,
                                               const Addend& addend,
                                               float (&sums)[Shape::kBlocks][8][4]) {
  const int chunks = own + (blockIdx.x % Shape::kClusterBlocks == 0 ? addend.ChunkCount() : 0);
  using Words = typename Shape::LeftWords;
  const auto read = [&](int chunk, Words& words) {
    ReadLeft<Shape>(AwaitChunk<Shape>(chunk, memory), row, words);
    if (Addend::kHasChunks && chunk >= own) ShowTensorCores();  // threads copied this chunk
  };
  // Multiplies the words of a chunk, and meanwhile reads those of the next chunk.
  const auto multiply = [&](int chunk, const Words& now, Words& next) {
    StartProducts<Shape>(memory.chunks[chunk % Shape::kStages], now, sums, chunk > 0);
    AwaitProducts<1>();  // those of the previous chunk
    if (chunk > 0) ReleaseStage<Shape>(chunk - 1, next, memory);
    if (chunk + 1 < chunks) read(chunk + 1, next);
  };
  if constexpr (kReadsAhead) {
    Words words[2];
    read(0, words[0]);
    for (int chunk = 0; chunk < chunks; chunk += 2) {
      multiply(chunk, words[0], words[1]);
      if (chunk + 1 < chunks) multiply(chunk + 1, words[1], words[0]);
    }
    AwaitProducts<0>();
  } else {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      Words words;
      read(chunk, words);
      StartProducts<Shape>(memory.chunks[chunk % Shape::kStages], words, sums, chunk > 0);
      AwaitProducts<0>();
      ReleaseStage<Shape>(chunk, words, memory);
    }
  }
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) HoldSums(sums[block]);
}

// The same for 16-bit and 8-bit numbers, which need no rounding: tensor cores read `a` from shared
// memory as well. That saves registers, so that a thread can hold its sums although two blocks
// share the multiprocessor.
template <class Shape, class Addend>
__device__ __forceinline__ void MultiplyStagesOfPanels(int row, int own,
                                                       typename Shape::Memory& memory,
                                                       const Addend& addend,
                                                       float (&sums)[Shape::kBlocks][8][4]) {
  const int chunks = own + (blockIdx.x % Shape::kClusterBlocks == 0 ? addend.ChunkCount() : 0);
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const typename Shape::Chunk& at = AwaitChunk<Shape>(chunk, memory);
    ShowTensorCores();  // threads copied `a`
    const unsigned long long a = DescribePanel(at.a.at(row, 0)),
                             b = DescribePanel(at.b[0].at(0, 0));
    BeginProducts();
#pragma unroll
    for (int i = 0; i < Shape::kBlocks * Shape::kSteps; ++i) {
      const int block = i % Shape::kBlocks, step = i / Shape::kBlocks;
      MultiplyPanels<Shape::kArithmetic>(sums[block], a + PanelWords(8 * step),
                                         b + PanelWords(64 * Shape::kPanelWords * block + 8 * step),
                                         chunk > 0 || step > 0);
    }
    CloseProducts();
    AwaitProducts<1>();  // those of the previous chunk
    if (chunk > 0) memory.used[(chunk - 1) % Shape::kStages].Arrive();
  }
  AwaitProducts<0>();
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) HoldSums(sums[block]);
}

// memory.sums = the products of all chunks of this block, plus the addend in the first block of a
// cluster, for the 64 rows of warpgroup number `group`.
template <class Shape, bool kMakes, class Addend, class Factors>
__device__ __forceinline__ void MakeSums(int group, int chunks, typename Shape::Memory& memory,
                                         const Addend& addend, const Factors& factors) {
  const int first_row = 64 * group + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int first_column = threadIdx.x % 4 * 2;
  const float row_units[2] = {factors.UnitOf(first_row), factors.UnitOf(first_row + 8)};
  float sums[Shape::kBlocks][8][4];
  if constexpr (Shape::kIsSplit) {
    MultiplySplitStages<Shape>(64 * group, chunks, memory, sums);
  } else if constexpr (Shape::kAddsChunks) {
    MultiplyFloat8Stages<Shape>(64 * group, chunks, memory, sums);
  } else {
    constexpr bool kHasFewRegisters = Shape::kGroups > 1 && kHasNeighbour<Shape, kMakes>;
    if constexpr (kHasFewRegisters && !kIsOfFloats<Shape::kArithmetic>)
      MultiplyStagesOfPanels<Shape>(64 * group, chunks, memory, addend, sums);
    else
      MultiplyStages<Shape, !kHasFewRegisters>(64 * group, chunks, memory, addend, sums);
  }
  AwaitBlock();  // no thread reads the chunks, which the sums overwrite
#pragma unroll
  for (int i = 0; i < 32 * Shape::kBlocks; ++i) {
    const int row = first_row + i % 4 / 2 * 8, column = first_column + i / 4 * 8 + i % 2;
    const float unit = Shape::kHasUnits ? memory.units[column] : 1.0f;
    memory.sums[0][row][column] = sums[i / 32][i / 4 % 8][i % 4] * unit * row_units[i % 4 / 2];
  }
}

// Initializes the barriers and starts to copy the panels of the first chunks, one for each stage.
// It may run before the earlier kernels have ended, since panels are weights, which no kernel
// writes.
template <class Shape>
__device__ __forceinline__ void StartPanels(const void* panels, int columns, int row_bytes,
                                            typename Shape::Memory& memory) {
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      memory.filled[stage].Make(Shape::Filling::kThreads + 1);
      memory.used[stage].Make(128 * Shape::kGroups);
    }
    ShowBarriers();
    for (int chunk = 0; chunk < min(Shape::kStages, range.count); ++chunk) {
      CopyPanels<Shape>(panels, columns, row_bytes, range.first, chunk, memory);
    }
  }
}

// memory.sums = a x b^T + addend, or this block's part of it. Split floats and E4M3 have no addend.
// `rows` rows and `columns` columns of the tile exist. A row of `a` has `row_bytes` bytes and
// begins at a multiple of kCopyBytes. `panels` points to the panels of `b` from the tile's first
// column on, which StartPanels has begun to copy. `factors` are the factors by which the rows of
// `a` were scaled.
template <class Shape, int kCopyBytes, class Left, class Addend = NoAddend,
          class Factors = NoFactors>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory,
                                                         const Addend& addend = {},
                                                         const Factors& factors = {}) {
  static_assert(kCopyBytes >= 4);
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the compiler sees a uniform value
  __syncthreads();                                           // the barriers are initialized
  if (group == Shape::kGroups) {
    LeaveRegisters<Shape, kIsMade<Left>>();
    FillStages<Shape, kCopyBytes>(a, rows, panels, columns, row_bytes, memory, addend);
    TakeRegistersBack<Shape, kIsMade<Left>>();
  } else {
    TakeRegisters<Shape, kIsMade<Left>>();
    MakeSums<Shape, kIsMade<Left>>(group, ChunksOfBlock<Shape>(row_bytes).count, memory, addend,
                                   factors);
    ReturnRegisters<Shape, kIsMade<Left>>();
  }
  AwaitSums<Shape>();
}
#else
template <class Shape>
__device__ __forceinline__ void StartPanels(const void*, int, int, typename Shape::Memory&) {}

// The same as a plain loop, for the CPU and for GPUs without wgmma.
template <class Shape, int kCopyBytes, class Left, class Addend = NoAddend,
          class Factors = NoFactors>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory,
                                                         const Addend& addend = {},
                                                         const Factors& factors = {}) {
  constexpr int kOfWord = kNumbersInWord<Shape>;
  constexpr int kOfChunk = kOfWord * Shape::kChunkWords;
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  const int end = min((range.first + range.count) * kOfChunk, row_bytes / 4 * kOfWord);
  __syncthreads();  // what the addend reads has been written
  for (int i = threadIdx.x; i < Shape::kRows * Shape::kColumns; i += Shape::kThreads) {
    const int row = i / Shape::kColumns, column = i % Shape::kColumns;
    if (column >= columns) continue;
    const char* from = PanelsOf<Shape>(panels, column, row_bytes);
    const auto* of_column = reinterpret_cast<const PanelRows<64, Shape::kPanelWords>*>(from);
    float sum = 0.0f;
    for (int k = range.first * kOfChunk; k < end; ++k) {
      const unsigned word = LeftWord(a, min(row, rows - 1), k / kOfWord, row_bytes);
      sum += NumberOf<Shape>(word, k % kOfWord) * RightNumber<Shape>(of_column, column % 64, k);
    }
    if constexpr (Shape::kHasUnits)
      sum *= reinterpret_cast<const float*>(from + PanelsBytes<Shape>(row_bytes))[column % 64];
    if (blockIdx.x % Shape::kClusterBlocks == 0) sum += addend.At(row, column);
    memory.sums[0][row][column] = sum * factors.UnitOf(row);
  }
  AwaitSums<Shape>();
}
#endif

// kCount consecutive sums from `column` on, a multiple of kCount: each adds up the parts of the
// blocks of the cluster.
template <class Shape, int kCount>
__device__ __forceinline__ Vector<float, kCount> ClusterSums(const typename Shape::Memory& memory,
                                                             int row, int column) {
  return SumOfBlocks<Shape::kClusterBlocks, kCount>(&memory.sums[0][row][column]);
}
