// The pipeline stages of warpgroup tiles (matmul_warpgroup.cuh): how they are filled and read.

// The sizes of a tile.
template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kStages_, int kClusterBlocks_ = 1>
struct WarpgroupShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr bool kIsSplit = kArithmetic == Arithmetic::kSplitHalf;
  static constexpr bool kIsFloat8 =
      kArithmetic == Arithmetic::kFloat8 || kArithmetic == Arithmetic::kShortFloat8;
  static constexpr bool kHasUnits = kIsSplit || kIsFloat8;
  // Whether the sums of each chunk are computed apart and then added in float. A thread then holds
  // the sums twice.
  static constexpr bool kAddsChunks = kIsSplit || kArithmetic == Arithmetic::kFloat8;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kStages = kStages_;
  static constexpr int kClusterBlocks = kHasClusters ? kClusterBlocks_ : 1;
  static constexpr int kGroups = kRows / 64;  // warpgroups that multiply
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kPanelWords = 32, kPanelBytes = 4 * kPanelWords;  // per row of `b`
  // Words per row of `a`. The panel's numbers, which are halves, take twice as many words as floats
  // in `a`.
  static constexpr int kChunkWords = kIsSplit ? 2 * kPanelWords : kPanelWords;
  static constexpr int kChunkBytes = 4 * kChunkWords;
  static constexpr int kSteps = kPanelWords / 8;
  static constexpr int kBlocks = kColumns / 64;
  static constexpr int kDepthWarps = 1;            // the depth of a chunk is not divided
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
    float units[kHasUnits ? kColumns : 1];  // one per column
  };
  // The warpgroup that fills the stages, in the form that LoadChunk and MakeChunk expect.
  struct Filling {
    static constexpr int kThreads = 128, kRows = kRows_;
    static constexpr int kChunkBytes = 4 * kChunkWords;
    static constexpr bool kBypass = true;  // copies bypass the L1 cache
  };
  // A thread's words of `a` in a chunk, in the layout of mma.sync.
  struct LeftWords {
    unsigned parts[kParts][kSteps][4];
    float units[2];  // of the thread's two rows
  };
};

// The number of chunks of a row.
template <class Shape>
__device__ __forceinline__ int ChunksOf(int row_bytes) {
  return (row_bytes + Shape::kChunkBytes - 1) / Shape::kChunkBytes;
}

// The size, in bytes, of the panels of 64 columns; the units of these columns follow them.
template <class Shape>
__device__ __forceinline__ int PanelsBytes(int row_bytes) {
  return ChunksOf<Shape>(row_bytes) * Shape::kParts * 64 * Shape::kPanelBytes;
}

// Points to the panels of the 64 columns that `column` belongs to.
template <class Shape>
__device__ __forceinline__ const char* PanelsOf(const void* panels, int column, int row_bytes) {
  constexpr int kUnitBytes = Shape::kHasUnits ? 64 * sizeof(float) : 0;
  const long long bytes = PanelsBytes<Shape>(row_bytes) + kUnitBytes;
  return static_cast<const char*>(panels) + column / 64 * bytes;
}

// A range of chunks.
struct ChunkRange {
  int first, count;
};

// The chunks that this block multiplies. A cluster never has more blocks than there are chunks.
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
// Waits for all threads of the block. They may call this at different places of the code.
__device__ __forceinline__ void AwaitBlock() { asm volatile("bar.sync 0;" ::: "memory"); }

// Starts to copy the panels of a chunk; `chunk` counts from the block's first chunk. With chunk 0
// it also copies the columns' units.
template <class Shape>
__device__ __forceinline__ void CopyPanels(const void* panels, int columns, int row_bytes,
                                           int first_chunk, int chunk,
                                           typename Shape::Memory& memory) {
  constexpr int kPanelBytes = 64 * Shape::kPanelBytes;
  typename Shape::Chunk& to = memory.chunks[chunk % Shape::kStages];
  CopyBarrier& filled = memory.filled[chunk % Shape::kStages];
  const bool with_units = Shape::kHasUnits && chunk == 0;
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

// Fills the stages with one chunk after another, each as soon as the previous chunk of its stage
// has been used, and then with the chunks of the addend. StartPanels has already started to copy
// the panels of the first chunks.
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

// Reads the thread's share of 16 rows of `a`, from `row` on, and 8 words, from `word` on, in the
// layout of mma.sync.
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

// Reads the thread's words of `a` in a chunk, and rounds floats to TF32.
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

// Tells the compiler that the words are used here, so that it computes them before this point and
// does not reuse their registers earlier.
template <class Shape>
__device__ __forceinline__ void HoldLeft(const typename Shape::LeftWords& words) {
#pragma unroll
  for (int i = 0; i < 4 * Shape::kSteps * Shape::kParts; ++i) {
    asm volatile("" ::"r"(words.parts[i / 4 / Shape::kSteps][i / 4 % Shape::kSteps][i % 4])
                 : "memory");
  }
}

// Starts the products of `a` and 64 columns of `b`. They are added to `sums` if `add` is true, and
// replace them otherwise.
template <class Shape>
__device__ __forceinline__ void StartPart(const PanelRows<Shape::kColumns, Shape::kPanelWords>& b,
                                          int first_column, const unsigned (&a)[Shape::kSteps][4],
                                          float (&sums)[8][4], bool add) {
  const unsigned long long panel = DescribePanel(b.at(first_column, 0));
  if constexpr (kIsOfFloats<Shape::kArithmetic> || Shape::kIsFloat8) {
    MultiplyByWholePanel<Shape::kArithmetic>(sums, a, panel, add);
  } else {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      MultiplyByPanel<Shape::kArithmetic, false>(sums, a[step], panel + PanelWords(8 * step),
                                                 add || step > 0);
    }
  }
}

// Allows the stage of a chunk to be filled again. The products of the chunk must have completed.
template <class Shape>
__device__ __forceinline__ void ReleaseStage(int chunk, const typename Shape::LeftWords& words,
                                             typename Shape::Memory& memory) {
  HoldLeft<Shape>(words);
  memory.used[chunk % Shape::kStages].Arrive();
}

// Waits until the chunk has been filled, and returns it.
template <class Shape>
__device__ __forceinline__ const typename Shape::Chunk& AwaitChunk(int chunk,
                                                                   typename Shape::Memory& memory) {
  memory.filled[chunk % Shape::kStages].Await(chunk / Shape::kStages % 2);
  return memory.chunks[chunk % Shape::kStages];
}
#else
// Word number `word`, of 32 bits, of a row.
template <class T>
__device__ __forceinline__ unsigned LeftWord(const T* a, int row, int word, int row_bytes) {
  const char* begin = reinterpret_cast<const char*>(a) + static_cast<long long>(row) * row_bytes;
  return reinterpret_cast<const unsigned*>(begin)[word];
}

// How many numbers of a row of `a` a word of 32 bits holds, and number `i` of a word.
template <class Shape>
constexpr int kNumbersInWord = kIsOfFloats<Shape::kArithmetic> ? 1 : (Shape::kIsFloat8 ? 4 : 2);
template <class Shape>
__device__ __forceinline__ float NumberOf(unsigned word, int i) {
  if constexpr (Shape::kIsFloat8) return FromE4M3(static_cast<unsigned char>(word >> 8 * i));
  return NumberIn<Shape::kArithmetic>(word, i);
}

// Element number `k` of a column, read from its panels; a chunk has kParts panels.
template <class Shape>
__device__ __forceinline__ float RightNumber(const PanelRows<64, Shape::kPanelWords>* panels,
                                             int column, int k) {
  constexpr int kOfWord = Shape::kIsSplit ? 2 : kNumbersInWord<Shape>;
  constexpr int kOfPanel = kOfWord * Shape::kPanelWords;
  const auto* at = panels + k / kOfPanel * Shape::kParts;
  if constexpr (Shape::kIsSplit) {
    const int half = k % kOfPanel / 16 * 16 + PlaceOfHalf(k % 16);
    const float high = NumberIn<Arithmetic::kHalf>(*at[0].at(column, half / 2), half % 2);
    return high + NumberIn<Arithmetic::kHalf>(*at[1].at(column, half / 2), half % 2) * kLowUnit;
  }
  return NumberOf<Shape>(*at->at(column, k % kOfPanel / kOfWord), k % kOfWord);
}
#endif
