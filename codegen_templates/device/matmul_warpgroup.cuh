// The warpgroups of a block make a tile of the product a x b^T; or those of the blocks of a cluster
// do, which share out the depth. The depth is the innermost axis of both operands.
//
// The depth passes through shared memory in chunks as wide as a panel, in kStages stages. The last
// warpgroup fills the stages. It copies rows of `a` as they are. Of `b`, which are weights, it
// copies the panels of 64 columns that the compiler has made: rounded, split, and in the order of
// shared memory (compiler/plan/matmul/weight_panels.h). Each of the other warpgroups multiplies 64
// rows by all columns of the tile, 64 at a time. It holds its rows of a chunk in registers, while
// tensor cores read the columns from shared memory; and, if it reads ahead, it reads its rows of
// the next chunk while they work.

// The sizes of a tile.
template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kStages_, bool kLongSums_,
          int kClusterBlocks_ = 1>
struct WarpgroupShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr bool kIsSplit = kArithmetic == Arithmetic::kSplitTf32;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kStages = kStages_;
  static constexpr int kClusterBlocks = kHasClusters ? kClusterBlocks_ : 1;
  // With fewer registers, blocks of the next kernel find room beside those of a cluster.
  static constexpr bool kReadsAhead = !kIsSplit || kClusterBlocks == 1;
  static constexpr int kGroups = kRows / 64;  // that multiply
  // Words that are read ahead stay where they are, in one of two places. Where sums are long, a
  // group beside another has time to move them, and the loop takes half the instructions.
  static constexpr bool kTakesTurns = !kIsSplit || (kReadsAhead && !(kLongSums_ && kGroups == 2));
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kChunkWords = 32, kChunkBytes = 4 * kChunkWords;
  static constexpr int kSteps = kChunkWords / 8;
  static constexpr int kBlocks = kColumns / 64;
  static constexpr int kDepthWarps = 1;            // that share out the sums
  static constexpr int kParts = kIsSplit ? 2 : 1;  // a number, and what rounding takes from it

  struct Chunk {
    PanelRows<kRows, kChunkWords> a;
    PanelRows<kColumns, kChunkWords> b[kParts];
  };
  struct Memory {
    union {
      Chunk chunks[kStages];
      float sums[kDepthWarps][kRows][kColumns + 8];
    };
    CopyBarrier filled[kStages], used[kStages];
  };
  // Who fills the stages, as LoadChunk and MakeChunk want it.
  struct Filling {
    static constexpr int kThreads = 128, kRows = kRows_, kChunkBytes = 4 * kChunkWords;
    static constexpr bool kBypass = true;  // of the first cache
  };
  // A thread's words of `a` in a chunk, as for mma.sync.
  struct LeftWords {
    unsigned parts[kParts][kSteps][4];
  };
};

// How many chunks a row has.
template <class Shape>
__device__ __forceinline__ int ChunksOf(int row_bytes) {
  return (row_bytes + Shape::kChunkBytes - 1) / Shape::kChunkBytes;
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

// Waits for all threads that make the sums of the tile: those of the block or of the cluster.
template <class Shape>
__device__ __forceinline__ void AwaitSums() {
  if constexpr (Shape::kClusterBlocks > 1) {
    AwaitCluster();
  } else {
    __syncthreads();
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Waits for all threads of the block, which may call this at different places.
__device__ __forceinline__ void AwaitBlock() { asm volatile("bar.sync 0;" ::: "memory"); }

// Fills the stages with one chunk after another, each as soon as the chunk before it in its stage
// is used.
template <class Shape, int kCopyBytes, class Left>
__device__ __forceinline__ void FillStages(const Left& a, int rows, const void* panels, int columns,
                                           int row_bytes, typename Shape::Memory& memory) {
  constexpr int kPanelBytes = 64 * Shape::kChunkBytes;
  const int chunks = ChunksOf<Shape>(row_bytes);
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  for (int chunk = 0; chunk < range.count; ++chunk) {
    const int stage = chunk % Shape::kStages, round = chunk / Shape::kStages;
    typename Shape::Chunk& to = memory.chunks[stage];
    CopyBarrier& filled = memory.filled[stage];
    if (round > 0) memory.used[stage].Await((round - 1) % 2);
    if (threadIdx.x % 128 == 0) {
      filled.ArriveAndExpect(static_cast<int>(sizeof(to.b)));
      for (int column = 0; column < Shape::kColumns; column += 64) {
        const long long panel = min(column, columns - 1) / 64 * chunks + range.first + chunk;
        for (int part = 0; part < Shape::kParts; ++part) {
          CopyBytes(to.b[part].at(column, 0),
                    static_cast<const char*>(panels) + (panel * Shape::kParts + part) * kPanelBytes,
                    kPanelBytes, filled);
        }
      }
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
  AwaitBlock();
}

// Reads the thread's words of `a` in a chunk, and rounds or splits them.
template <class Shape>
__device__ __forceinline__ void ReadLeft(const typename Shape::Chunk& chunk, int first_row,
                                         typename Shape::LeftWords& words) {
  const int lane = threadIdx.x % 32, row = first_row + threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    unsigned(&high)[4] = words.parts[0][step];
    const unsigned address =
        static_cast<unsigned>(__cvta_generic_to_shared(chunk.a.at(row, 8 * step + lane / 16 * 4)));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(high[0]), "=r"(high[1]), "=r"(high[2]), "=r"(high[3])
                 : "r"(address)
                 : "memory");
    if constexpr (Shape::kIsSplit) {
      SplitWords<Shape::kArithmetic>(high, words.parts[1][step]);
    } else {
      unsigned lost[4];
      SplitWords<Shape::kArithmetic>(high, lost);
    }
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
__device__ __forceinline__ void StartPart(const PanelRows<Shape::kColumns, Shape::kChunkWords>& b,
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
// Of split floats the small products come first.
template <class Shape>
__device__ __forceinline__ void StartProducts(const typename Shape::Chunk& chunk,
                                              const typename Shape::LeftWords& words,
                                              float (&sums)[Shape::kBlocks][8][4], bool add) {
  HoldLeft<Shape>(words);
  BeginProducts();
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) {
    if constexpr (Shape::kIsSplit) {
      StartPart<Shape>(chunk.b[0], 64 * block, words.parts[1], sums[block], add);
      StartPart<Shape>(chunk.b[1], 64 * block, words.parts[0], sums[block], true);
    }
    StartPart<Shape>(chunk.b[0], 64 * block, words.parts[0], sums[block], add || Shape::kIsSplit);
  }
  CloseProducts();
}

// Adds the sums of a chunk, whose products have ended, to the sums of the tile.
__device__ __forceinline__ void AddChunk(float (&chunk_sums)[8][4], float (&sums)[8][4]) {
  HoldSums(chunk_sums);
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[i / 4][i % 4] += chunk_sums[i / 4][i % 4];
}

// Threads that fill stages leave registers to those that multiply, more of them if they only copy.
// With one multiplying warpgroup each thread has enough. The block must have a multiprocessor to
// itself: otherwise the threads that take registers may wait for ever.
template <class Shape, bool kMakes>
__device__ __forceinline__ void LeaveRegisters() {
  if constexpr (Shape::kGroups == 2)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMakes ? 88 : 40));
}

// Takes the registers that LeaveRegisters leaves.
template <class Shape, bool kMakes>
__device__ __forceinline__ void TakeRegisters() {
  if constexpr (Shape::kGroups == 2)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMakes ? 208 : 232));
}

// memory.sums = the products of all chunks, for the 64 rows of warpgroup number `group`.
template <class Shape>
__device__ __forceinline__ void MultiplyStages(int group, int chunks,
                                               typename Shape::Memory& memory) {
  constexpr int kStages = Shape::kStages, kBlocks = Shape::kBlocks;
  const int row = 64 * group;
  const auto read = [&](int chunk, typename Shape::LeftWords& words) {
    memory.filled[chunk % kStages].Await(chunk / kStages % 2);
    ReadLeft<Shape>(memory.chunks[chunk % kStages], row, words);
  };
  const auto release = [&](int chunk, const typename Shape::LeftWords& words) {
    HoldLeft<Shape>(words);
    memory.used[chunk % kStages].Arrive();
  };
  float sums[kBlocks][8][4];
  if constexpr (Shape::kIsSplit) {
#pragma unroll
    for (int i = 0; i < 32 * kBlocks; ++i) sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
  }
  // Multiplies the words of a chunk, and reads those of the next one meanwhile.
  using Words = typename Shape::LeftWords;
  const auto multiply = [&](int chunk, const Words& now, Words& next) {
    const typename Shape::Chunk& from = memory.chunks[chunk % kStages];
    if constexpr (Shape::kIsSplit) {
      // Tensor cores round sums toward zero, so these end with a chunk and are added to nearest.
      float chunk_sums[kBlocks][8][4];
      StartProducts<Shape>(from, now, chunk_sums, false);
      if (Shape::kReadsAhead && chunk + 1 < chunks) read(chunk + 1, next);
      AwaitProducts<0>();
      release(chunk, now);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) AddChunk(chunk_sums[block], sums[block]);
    } else {
      StartProducts<Shape>(from, now, sums, chunk > 0);
      AwaitProducts<1>();  // the chunk before
      if (chunk > 0) release(chunk - 1, next);
      if (chunk + 1 < chunks) read(chunk + 1, next);
    }
  };
  if constexpr (Shape::kTakesTurns) {
    Words words[2];
    read(0, words[0]);
    for (int chunk = 0; chunk < chunks; chunk += 2) {
      multiply(chunk, words[0], words[1]);
      if (chunk + 1 < chunks) multiply(chunk + 1, words[1], words[0]);
    }
  } else {
    Words now, next;
    if (Shape::kReadsAhead) read(0, now);
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (!Shape::kReadsAhead) read(chunk, now);
      multiply(chunk, now, next);
      if (Shape::kReadsAhead) now = next;
    }
  }
  AwaitProducts<0>();
  AwaitBlock();  // none reads what the sums overwrite
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    HoldSums(sums[block]);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      memory.sums[0][row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8]
                 [64 * block + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = sums[block][i / 4][i % 4];
    }
  }
}

// memory.sums = a x b^T, or this block's part of it. `rows` rows and `columns` columns of the tile
// exist. A row of `a` has `row_bytes` bytes and begins at a multiple of kCopyBytes. `panels` are
// those of `b` from the tile's first column on.
template <class Shape, int kCopyBytes, class Left>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory) {
  static_assert(kCopyBytes >= 4);
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for a whole warp
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      memory.filled[stage].Make(Shape::Filling::kThreads + 1);
      memory.used[stage].Make(128 * Shape::kGroups);
    }
    ShowBarriers();
  }
  __syncthreads();
  if (group == Shape::kGroups) {
    LeaveRegisters<Shape, kIsMade<Left>>();
    FillStages<Shape, kCopyBytes>(a, rows, panels, columns, row_bytes, memory);
  } else {
    TakeRegisters<Shape, kIsMade<Left>>();
    MultiplyStages<Shape>(group, ChunksOfBlock<Shape>(row_bytes).count, memory);
  }
  AwaitSums<Shape>();
}
#else
// Word number `word` of a row, 32 bits.
template <class T>
__device__ __forceinline__ unsigned LeftWord(const T* a, int row, int word, int row_bytes) {
  const char* begin = reinterpret_cast<const char*>(a) + static_cast<long long>(row) * row_bytes;
  return reinterpret_cast<const unsigned*>(begin)[word];
}

// The same without warpgroups, for the CPU and for GPUs that this kernel was not planned for.
template <class Shape, int kCopyBytes, class Left>
__device__ __forceinline__ void MultiplyTileByWarpgroups(Left a, int rows, const void* panels,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory) {
  using Panel = PanelRows<64, Shape::kChunkWords>;
  constexpr int kWords = Shape::kChunkWords;
  const int chunks = ChunksOf<Shape>(row_bytes);
  const ChunkRange range = ChunksOfBlock<Shape>(row_bytes);
  for (int i = threadIdx.x; i < Shape::kRows * Shape::kColumns; i += Shape::kThreads) {
    const int row = i / Shape::kColumns, column = i % Shape::kColumns;
    if (column >= columns) continue;
    const Panel* parts = static_cast<const Panel*>(panels) + column / 64 * chunks * Shape::kParts;
    float sum = 0.0f;
    const int end = min((range.first + range.count) * kWords, row_bytes / 4);
    for (int word = range.first * kWords; word < end; ++word) {
      const Panel* at = parts + word / kWords * Shape::kParts;
      const unsigned left = LeftWord(a, min(row, rows - 1), word, row_bytes);
      for (int part = 0; part < Shape::kParts; ++part) {
        const unsigned right = *at[part].at(column % 64, word % kWords);
        for (int half = 0; half < (kIsOfFloats<Shape::kArithmetic> ? 1 : 2); ++half) {
          sum +=
              NumberIn<Shape::kArithmetic>(left, half) * NumberIn<Shape::kArithmetic>(right, half);
        }
      }
    }
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
