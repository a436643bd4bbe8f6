// The warpgroups of a block make a tile of the product a x b^T; or those of the blocks of a cluster
// do, which share out the depth. The depth is the innermost axis of both operands.
//
// The depth passes through shared memory in chunks as wide as a panel of `b`, in kStages stages.
// The last warpgroup fills the stages. It copies rows of `a` as they are. Of `b`, which are
// weights, it copies the panels of 64 columns that the compiler has made: rounded, split, and in
// the order of shared memory (compiler/plan/matmul/weight_panels.h). Each of the other warpgroups
// multiplies 64 rows by all columns of the tile, 64 at a time. It holds its rows of a chunk in
// registers, while tensor cores read the columns from shared memory, and reads its rows of the next
// chunk while they work. Floats that are split become halves where they are read (split_half.cuh),
// in units that each row has in each chunk.

// The sizes of a tile.
template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kStages_, int kClusterBlocks_ = 1>
struct WarpgroupShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr bool kIsSplit = kArithmetic == Arithmetic::kSplitHalf;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kStages = kStages_;
  static constexpr int kClusterBlocks = kHasClusters ? kClusterBlocks_ : 1;
  static constexpr int kGroups = kRows / 64;  // that multiply
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kPanelWords = 32, kPanelBytes = 4 * kPanelWords;  // of a row of `b`
  // Of a row of `a`: what a panel has as halves are twice as many words as floats.
  static constexpr int kChunkWords = kIsSplit ? 2 * kPanelWords : kPanelWords;
  static constexpr int kChunkBytes = 4 * kChunkWords;
  static constexpr int kSteps = kPanelWords / 8;
  static constexpr int kBlocks = kColumns / 64;
  static constexpr int kDepthWarps = 1;            // that share out the sums
  static constexpr int kParts = kIsSplit ? 2 : 1;  // `high` and `low`

  struct Chunk {
    PanelRows<kRows, kChunkWords> a;
    PanelRows<kColumns, kPanelWords> b[kParts];
  };
  struct Memory {
    union {
      Chunk chunks[kStages];
      float sums[kDepthWarps][kRows][kColumns + 8];
    };
    CopyBarrier filled[kStages], used[kStages];
    float units[kIsSplit ? kColumns : 1];  // of the columns' halves
  };
  // Who fills the stages, as LoadChunk and MakeChunk want it.
  struct Filling {
    static constexpr int kThreads = 128, kRows = kRows_;
    static constexpr int kChunkBytes = 4 * kChunkWords;
    static constexpr bool kBypass = true;  // of the first cache
  };
  // A thread's words of `a` in a chunk, as for mma.sync.
  struct LeftWords {
    unsigned parts[kParts][kSteps][4];
    float units[2];  // of the halves of its two rows
  };
};

// How many chunks a row has.
template <class Shape>
__device__ __forceinline__ int ChunksOf(int row_bytes) {
  return (row_bytes + Shape::kChunkBytes - 1) / Shape::kChunkBytes;
}

// Bytes of 64 columns' panels, behind which stand the units of their halves.
template <class Shape>
__device__ __forceinline__ int PanelsBytes(int row_bytes) {
  return ChunksOf<Shape>(row_bytes) * Shape::kParts * 64 * Shape::kPanelBytes;
}

// The panels of 64 columns, from `column` on.
template <class Shape>
__device__ __forceinline__ const char* PanelsOf(const void* panels, int column, int row_bytes) {
  constexpr int kUnitBytes = Shape::kIsSplit ? 64 * sizeof(float) : 0;
  const long long bytes = PanelsBytes<Shape>(row_bytes) + kUnitBytes;
  return static_cast<const char*>(panels) + column / 64 * bytes;
}

// Neighbouring chunks.
struct ChunkRange {
  int first, count;
};

// The chunks that this block multiplies. A cluster has no more blocks than there are chunks.
template <class Shape>
__device__ __forceinline__ ChunkRange ChunksOfBlock(int row_bytes) {
  const int chunks = ChunksOf<Shape>(row_bytes);
  if constexpr (Shape::kClusterBlocks > 1) {
    const int block = blockIdx.x % Shape::kClusterBlocks;
    const int first = chunks * block / Shape::kClusterBlocks;
    return {first, chunks * (block + 1) / Shape::kClusterBlocks - first};
  }
  return {0, chunks};
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Waits for all threads of the block, which may call this at different places.
__device__ __forceinline__ void AwaitBlock() { asm volatile("bar.sync 0;" ::: "memory"); }

// Starts to copy the panels of a chunk, whose number counts from the block's first one, and with
// that the columns' units.
template <class Shape>
__device__ __forceinline__ void CopyPanels(const void* panels, int columns, int row_bytes,
                                           int first_chunk, int chunk,
                                           typename Shape::Memory& memory) {
  constexpr int kPanelBytes = 64 * Shape::kPanelBytes;
  typename Shape::Chunk& to = memory.chunks[chunk % Shape::kStages];
  CopyBarrier& filled = memory.filled[chunk % Shape::kStages];
  const bool with_units = Shape::kIsSplit && chunk == 0;
  const int unit_bytes = with_units ? sizeof(memory.units) : 0;
  filled.ArriveAndExpect(static_cast<int>(sizeof(to.b)) + unit_bytes);
  for (int column = 0; column < Shape::kColumns; column += 64) {
    const char* from = PanelsOf<Shape>(panels, min(column, columns - 1), row_bytes);
    for (int part = 0; part < Shape::kParts; ++part) {
      const int panel = (first_chunk + chunk) * Shape::kParts + part;
      CopyBytes(to.b[part].at(column, 0), from + panel * kPanelBytes, kPanelBytes, filled);
    }
    if (with_units)
      CopyBytes(&memory.units[column], from + PanelsBytes<Shape>(row_bytes), 64 * sizeof(float),
                filled);
  }
}

// Fills the stages with one chunk after another, each as soon as the chunk before it in its stage
// is used, and then with those of the addend. The panels of the first ones are on their way
// already.
template <class Shape, int kCopyBytes, class Left, class Addend>
__device__ __forceinline__ void FillStages(const Left& a, int rows, const void* panels, int columns,
                                           int row_bytes, typename Shape::Memory& memory,
                                           const Addend& addend) {
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  for (int chunk = 0; chunk < range.count; ++chunk) {
    const int stage = chunk % Shape::kStages, round = chunk / Shape::kStages;
    typename Shape::Chunk& to = memory.chunks[stage];
    CopyBarrier& filled = memory.filled[stage];
    if (round > 0) {
      memory.used[stage].Await((round - 1) % 2);
      if (threadIdx.x % 128 == 0)
        CopyPanels<Shape>(panels, columns, row_bytes, range.first, chunk, memory);
    }
    if constexpr (kIsMade<Left>) {
      FillChunk(typename Shape::Filling{}, to.a, a, rows, row_bytes, range.first + chunk);
      filled.Arrive();
    } else {
      LoadChunk<typename Shape::Filling, kCopyBytes, Shape::kRows>(to.a, a, rows, row_bytes,
                                                                   range.first + chunk);
      filled.ArriveAfterCopies();
    }
  }
  if (blockIdx.x % Shape::kClusterBlocks == 0)
    addend.template FillStages<Shape>(range.count, memory);
  AwaitBlock();
}

// Reads the thread's numbers in 8 words of `a` from `word` on, as for mma.sync of floats, for 16
// rows from `row` on.
template <class Rows>
__device__ __forceinline__ void ReadPiece(const Rows& a, int row, int word, unsigned (&words)[4]) {
  const int lane = threadIdx.x % 32;
  const unsigned address =
      static_cast<unsigned>(__cvta_generic_to_shared(a.at(row + lane % 16, word + lane / 16 * 4)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

// Reads the thread's words of `a` in a chunk, and rounds them.
template <class Shape>
__device__ __forceinline__ void ReadLeft(const typename Shape::Chunk& chunk, int first_row,
                                         typename Shape::LeftWords& words) {
  const int row = first_row + threadIdx.x / 32 % 4 * 16;
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    unsigned lost[4];
    ReadPiece(chunk.a, row, 8 * step, words.parts[0][step]);
    SplitWords<Shape::kArithmetic>(words.parts[0][step], lost);
  }
}

// The same of floats that become halves. A thread's numbers in two pieces, of 8 words each, are
// neighbours among 16 halves.
template <class Shape>
__device__ __forceinline__ void ReadSplitLeft(const typename Shape::Chunk& chunk, int first_row,
                                              typename Shape::LeftWords& words) {
  const int row = first_row + threadIdx.x / 32 % 4 * 16;
  unsigned pieces[2 * Shape::kSteps][4];
  float greatest[2] = {0.0f, 0.0f}, reciprocals[2];
#pragma unroll
  for (int i = 0; i < 2 * Shape::kSteps; ++i) ReadPiece(chunk.a, row, 8 * i, pieces[i]);
#pragma unroll
  for (int i = 0; i < 8 * Shape::kSteps; ++i) {
    greatest[i % 2] = fmaxf(greatest[i % 2], fabsf(__uint_as_float(pieces[i / 4][i % 4])));
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const HalfUnit unit = UnitOfHalves(GreatestOfRow(greatest[i]));
    words.units[i] = unit.unit;
    reciprocals[i] = unit.reciprocal;
  }
#pragma unroll
  for (int i = 0; i < 4 * Shape::kSteps; ++i) {
    const unsigned(&piece)[4] = pieces[i / 4 * 2 + i % 4 / 2];
    SplitToHalves(__uint_as_float(piece[i % 2]), __uint_as_float(piece[2 + i % 2]),
                  reciprocals[i % 2], words.parts[0][i / 4][i % 4], words.parts[1][i / 4][i % 4]);
  }
}

// Tells the compiler that the words are used here: it must have made them, and not reused their
// registers yet.
template <class Shape>
__device__ __forceinline__ void HoldLeft(const typename Shape::LeftWords& words) {
#pragma unroll
  for (int i = 0; i < 4 * Shape::kSteps * Shape::kParts; ++i) {
    asm volatile("" ::"r"(words.parts[i / 4 / Shape::kSteps][i / 4 % Shape::kSteps][i % 4])
                 : "memory");
  }
}

// Starts the products of `a` and 64 columns of `b`. They are added to the sums if `add`, and
// replace them otherwise.
template <class Shape>
__device__ __forceinline__ void StartPart(const PanelRows<Shape::kColumns, Shape::kPanelWords>& b,
                                          int first_column, const unsigned (&a)[Shape::kSteps][4],
                                          float (&sums)[8][4], bool add) {
  const unsigned long long panel = DescribePanel(b.at(first_column, 0));
  if constexpr (kIsOfFloats<Shape::kArithmetic>) {
    MultiplyFloatsByPanel(sums, a, panel, add);
  } else {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      MultiplyByPanel<Shape::kArithmetic, false>(sums, a[step], panel + PanelWords(8 * step),
                                                 add || step > 0);
    }
  }
}

// Starts the products of a chunk. They are added to the sums if `add`, and replace them otherwise.
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

// Starts the products of a chunk of split floats, for 64 columns.
template <class Shape>
__device__ __forceinline__ void StartSplitProducts(const typename Shape::Chunk& chunk,
                                                   const typename Shape::LeftWords& words,
                                                   int first_column, SplitSums& sums) {
  const unsigned long long highs = DescribePanel(chunk.b[0].at(first_column, 0));
  const unsigned long long lows = DescribePanel(chunk.b[1].at(first_column, 0));
  HoldLeft<Shape>(words);
  BeginProducts();
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    const unsigned long long from = PanelWords(8 * step);
    const unsigned(&high)[4] = words.parts[0][step];
    const unsigned(&low)[4] = words.parts[1][step];
    MultiplyByPanel<Arithmetic::kHalf, false>(sums.highs, high, highs + from, step > 0);
    MultiplyByPanel<Arithmetic::kHalf, false>(sums.crossed, low, highs + from, step > 0);
    MultiplyByPanel<Arithmetic::kHalf, false>(sums.crossed, high, lows + from, true);
  }
  CloseProducts();
}

// Lets the stage of a chunk be filled again, whose products have ended.
template <class Shape>
__device__ __forceinline__ void ReleaseStage(int chunk, const typename Shape::LeftWords& words,
                                             typename Shape::Memory& memory) {
  HoldLeft<Shape>(words);
  memory.used[chunk % Shape::kStages].Arrive();
}

// The chunk, when it is there.
template <class Shape>
__device__ __forceinline__ const typename Shape::Chunk& AwaitChunk(int chunk,
                                                                   typename Shape::Memory& memory) {
  memory.filled[chunk % Shape::kStages].Await(chunk / Shape::kStages % 2);
  return memory.chunks[chunk % Shape::kStages];
}

// sums = the products of `own` chunks and of those of the addend, for 64 rows. A thread without the
// registers to read a chunk ahead leaves it to the block beside its own to keep tensor cores busy.
template <class Shape, bool kReadsAhead, class Addend>
__device__ __forceinline__ void MultiplyStages(int row, int own, typename Shape::Memory& memory,
                                               const Addend& addend,
                                               float (&sums)[Shape::kBlocks][8][4]) {
  const int chunks = own + (blockIdx.x % Shape::kClusterBlocks == 0 ? addend.ChunkCount() : 0);
  using Words = typename Shape::LeftWords;
  const auto read = [&](int chunk, Words& words) {
    ReadLeft<Shape>(AwaitChunk<Shape>(chunk, memory), row, words);
    if (Addend::kHasChunks && chunk >= own) ShowTensorCores();  // what threads have copied
  };
  // Multiplies the words of a chunk, and reads those of the next one meanwhile.
  const auto multiply = [&](int chunk, const Words& now, Words& next) {
    StartProducts<Shape>(memory.chunks[chunk % Shape::kStages], now, sums, chunk > 0);
    AwaitProducts<1>();  // the chunk before
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

// The same of floats that are split, in units of the columns.
template <class Shape>
__device__ __forceinline__ void MultiplySplitStages(int row, int chunks,
                                                    typename Shape::Memory& memory,
                                                    float (&sums)[Shape::kBlocks][8][4]) {
  const auto read = [&](int chunk, typename Shape::LeftWords& words) {
    ReadSplitLeft<Shape>(AwaitChunk<Shape>(chunk, memory), row, words);
  };
#pragma unroll
  for (int i = 0; i < 32 * Shape::kBlocks; ++i) sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
  // If it knew of a single chunk, ptxas 13.0 would make the products of one block of two.
  asm volatile("" : "+r"(chunks));
  typename Shape::LeftWords now, next;
  read(0, now);
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      SplitSums chunk_sums;
      StartSplitProducts<Shape>(memory.chunks[chunk % Shape::kStages], now, 64 * block, chunk_sums);
      if (block == 0 && chunk + 1 < chunks) read(chunk + 1, next);
      AwaitProducts<0>();
      if (block + 1 == Shape::kBlocks) ReleaseStage<Shape>(chunk, now, memory);
      AddSplitSums(chunk_sums, now.units, sums[block]);
    }
    now = next;
  }
}

// memory.sums = the products of all chunks and the addend, which the first block of a cluster adds,
// for the 64 rows of warpgroup number `group`.
template <class Shape, bool kMakes, class Addend>
__device__ __forceinline__ void MakeSums(int group, int chunks, typename Shape::Memory& memory,
                                         const Addend& addend) {
  const int first_row = 64 * group + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int first_column = threadIdx.x % 4 * 2;
  float sums[Shape::kBlocks][8][4];
  if constexpr (Shape::kIsSplit) {
    MultiplySplitStages<Shape>(64 * group, chunks, memory, sums);
  } else {
    constexpr bool kReadsAhead = Shape::kGroups == 1 || !kHasNeighbour<Shape, kMakes>;
    MultiplyStages<Shape, kReadsAhead>(64 * group, chunks, memory, addend, sums);
  }
  AwaitBlock();  // none reads what the sums overwrite
#pragma unroll
  for (int i = 0; i < 32 * Shape::kBlocks; ++i) {
    const int row = first_row + i % 4 / 2 * 8, column = first_column + i / 4 * 8 + i % 2;
    const float unit = Shape::kIsSplit ? memory.units[column] : 1.0f;
    memory.sums[0][row][column] = sums[i / 32][i / 4 % 8][i % 4] * unit;
  }
}

// Makes the barriers and starts to copy the panels of as many chunks as there are stages. They are
// weights, which no earlier kernel writes.
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

// memory.sums = a x b^T + addend, or this block's part of it. The addend is none for floats that
// are split. `rows` rows and `columns` columns of the tile exist. A row of `a` has `row_bytes`
// bytes and begins at a multiple of kCopyBytes. `panels` are those of `b` from the tile's first
// column on, which StartPanels has begun to copy.
template <class Shape, int kCopyBytes, class Left, class Addend = NoAddend>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory,
                                                         const Addend& addend = {}) {
  static_assert(kCopyBytes >= 4);
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for a whole warp
  __syncthreads();                                           // the barriers are there
  if (group == Shape::kGroups) {
    LeaveRegisters<Shape, kIsMade<Left>>();
    FillStages<Shape, kCopyBytes>(a, rows, panels, columns, row_bytes, memory, addend);
    TakeRegistersBack<Shape, kIsMade<Left>>();
  } else {
    TakeRegisters<Shape, kIsMade<Left>>();
    MakeSums<Shape, kIsMade<Left>>(group, ChunksOfBlock<Shape>(row_bytes).count, memory, addend);
    ReturnRegisters<Shape, kIsMade<Left>>();
  }
  AwaitSums<Shape>();
}
#else
template <class Shape>
__device__ __forceinline__ void StartPanels(const void*, int, int, typename Shape::Memory&) {}

// Word number `word` of a row, 32 bits.
template <class T>
__device__ __forceinline__ unsigned LeftWord(const T* a, int row, int word, int row_bytes) {
  const char* begin = reinterpret_cast<const char*>(a) + static_cast<long long>(row) * row_bytes;
  return reinterpret_cast<const unsigned*>(begin)[word];
}

// Element number `k` of a column in its panels, of which a chunk has kParts.
template <class Shape>
__device__ __forceinline__ float RightNumber(const PanelRows<64, Shape::kPanelWords>* panels,
                                             int column, int k) {
  constexpr int kOfWord = kIsOfFloats<Shape::kArithmetic> && !Shape::kIsSplit ? 1 : 2;
  constexpr int kOfPanel = kOfWord * Shape::kPanelWords;
  const auto* at = panels + k / kOfPanel * Shape::kParts;
  if constexpr (Shape::kIsSplit) {
    const int half = k % kOfPanel / 16 * 16 + PlaceOfHalf(k % 16);
    const float high = NumberIn<Arithmetic::kHalf>(*at[0].at(column, half / 2), half % 2);
    return high + NumberIn<Arithmetic::kHalf>(*at[1].at(column, half / 2), half % 2) * kLowUnit;
  }
  return NumberIn<Shape::kArithmetic>(*at->at(column, k % kOfPanel / kOfWord), k % kOfWord);
}

// The same without warpgroups, for the CPU and for GPUs that this kernel was not planned for.
template <class Shape, int kCopyBytes, class Left, class Addend = NoAddend>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory,
                                                         const Addend& addend = {}) {
  constexpr int kOfWord = kIsOfFloats<Shape::kArithmetic> ? 1 : 2;
  constexpr int kOfChunk = kOfWord * Shape::kChunkWords;
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  const int end = min((range.first + range.count) * kOfChunk, row_bytes / 4 * kOfWord);
  __syncthreads();  // what the addend reads is there
  for (int i = threadIdx.x; i < Shape::kRows * Shape::kColumns; i += Shape::kThreads) {
    const int row = i / Shape::kColumns, column = i % Shape::kColumns;
    if (column >= columns) continue;
    const char* from = PanelsOf<Shape>(panels, column, row_bytes);
    const auto* of_column = reinterpret_cast<const PanelRows<64, Shape::kPanelWords>*>(from);
    float sum = 0.0f;
    for (int k = range.first * kOfChunk; k < end; ++k) {
      const unsigned word = LeftWord(a, min(row, rows - 1), k / kOfWord, row_bytes);
      sum += NumberIn<Shape::kArithmetic>(word, k % kOfWord) *
             RightNumber<Shape>(of_column, column % 64, k);
    }
    if constexpr (Shape::kIsSplit)
      sum *= reinterpret_cast<const float*>(from + PanelsBytes<Shape>(row_bytes))[column % 64];
    if (blockIdx.x % Shape::kClusterBlocks == 0) sum += addend.At(row, column);
    memory.sums[0][row][column] = sum;
  }
  AwaitSums<Shape>();
}
#endif

// Neighbouring sums from `column` on, a multiple of their count: the parts that the blocks of the
// cluster have, added up.
template <class Shape, int kCount>
__device__ __forceinline__ Vector<float, kCount> ClusterSums(const typename Shape::Memory& memory,
                                                             int row, int column) {
  return SumOfBlocks<Shape::kClusterBlocks, kCount>(&memory.sums[0][row][column]);
}
