// A tile of the product a x b^T by one block, by warpgroups; the depth is the innermost axis of
// both operands.
//
// The depth passes through shared memory in chunks as wide as a panel, kStages of them under way at
// a time. A warpgroup owns 64 rows and its share of the columns, by blocks of 64:
//
//              blocks |  64  64  |  64  64  |
//   warp  0: 16 rows  |          |          |
//   ...               | group 0  | group 2  |   2 row groups, 2 column groups
//   warp  3: 16 rows  |          |          |
//   warp  4: 16 rows  | group 1  | group 3  |
//   ...
//
// It holds its rows of a chunk in registers, while tensor cores read the columns from shared
// memory; and it makes the next chunk ready while they work.

template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kColumnGroups_, int kStages_>
struct WarpgroupShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr bool kIsSplit = kArithmetic == Arithmetic::kSplitTf32;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kStages = kStages_;
  static constexpr int kRowGroups = kRows / 64, kColumnGroups = kColumnGroups_;
  static constexpr int kThreads = 128 * kRowGroups * kColumnGroups;
  static constexpr int kChunkWords = 32, kChunkBytes = 4 * kChunkWords;
  static constexpr bool kBypass = true;  // of the first cache, by copies
  static constexpr int kSteps = kChunkWords / 8;
  static constexpr int kBlocks = kColumns / kColumnGroups / 64;  // of 64 columns, of a warpgroup
  static constexpr int kDepthWarps = 1;                          // that share out the sums
  static constexpr int kParts = kIsSplit ? 2 : 1;  // a number, and what rounding takes from it

  struct Chunk {
    PanelRows<kRows, kChunkWords> a;
    PanelRows<kColumns, kChunkWords> b[kParts];
  };
  union Memory {
    Chunk chunks[kStages];
    float sums[kDepthWarps][kRows][kColumns + 8];
  };
  // A thread's words of `a` in a chunk, as for mma.sync.
  struct LeftWords {
    unsigned parts[kParts][kSteps][4];
  };
};

#ifdef __CUDACC__
// Makes the columns that this thread copied ready: floats are rounded to TF32. Tensor cores see
// what was copied in the background, but have to be shown what a thread stored.
template <class Shape, int kCopyBytes>
__device__ __forceinline__ void PrepareColumns(typename Shape::Chunk& chunk) {
  if constexpr (kIsOfFloats<Shape::kArithmetic>) {
    constexpr int kCopies = Shape::kChunkBytes / kCopyBytes, kWords = kCopyBytes / 4;
    constexpr int kRowStep = Shape::kThreads / kCopies;
    const int thread = threadIdx.x % Shape::kThreads, word = thread % kCopies * kWords;
#pragma unroll
    for (int first = 0; first < Shape::kColumns; first += kRowStep) {
      const int row = first + thread / kCopies;
      Vector<unsigned, kWords> high = LoadVector<kWords>(chunk.b[0].at(row, word)), low;
      SplitWords<Shape::kArithmetic>(high.at, low.at);
      KeepVector(chunk.b[0].at(row, word), high);
      if constexpr (Shape::kIsSplit) KeepVector(chunk.b[1].at(row, word), low);
    }
    ShowTensorCores();
  }
}

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

// Keeps the compiler from moving the making of words behind it, and from overwriting them before.
template <class Shape>
__device__ __forceinline__ void HoldLeft(const typename Shape::LeftWords& words) {
#pragma unroll
  for (int i = 0; i < 4 * Shape::kSteps * Shape::kParts; ++i) {
    asm volatile("" ::"r"(words.parts[i / 4 / Shape::kSteps][i / 4 % Shape::kSteps][i % 4])
                 : "memory");
  }
}

// Starts to add the products of `a` and 64 columns of `b` to the sums, or to make these.
template <class Shape>
__device__ __forceinline__ void StartPart(const PanelRows<Shape::kColumns, Shape::kChunkWords>& b,
                                          int first_column, const unsigned (&a)[Shape::kSteps][4],
                                          float (&sums)[8][4], bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const unsigned long long panel = DescribePanel(b.at(first_column, 0));
  if constexpr (kIsOfFloats<Shape::kArithmetic>) {
    MultiplyFloatsByPanel(sums, a, panel, add);
  } else {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      constexpr int kStepBytes = 32;
      MultiplyByPanel<Shape::kArithmetic, false>(sums, a[step], panel + step * kStepBytes / 16,
                                                 add || step > 0);
    }
  }
#else
  // By warps, for a GPU that the kernel was not planned for.
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int piece = 0; piece < 8; ++piece) {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const int column = first_column + 8 * piece + lane / 4, word = 8 * step + lane % 4;
      const unsigned words[2] = {*b.at(column, word), *b.at(column, word + 4)};
      if (step == 0 && !add) sums[piece][0] = sums[piece][1] = sums[piece][2] = sums[piece][3] = 0;
      MultiplyPiece<Shape::kArithmetic>(sums[piece], a[step], words);
    }
  }
#endif
}

// Starts to add the products of 64 columns of a chunk to the sums, or of split floats, the small
// ones first, to make them.
template <class Shape>
__device__ __forceinline__ void StartProducts(const typename Shape::Chunk& chunk, int,
                                              int first_column,
                                              const typename Shape::LeftWords& words,
                                              float (&sums)[8][4]) {
  HoldLeft<Shape>(words);
  BeginProducts();
  if constexpr (Shape::kIsSplit) {
    StartPart<Shape>(chunk.b[0], first_column, words.parts[1], sums, false);
    StartPart<Shape>(chunk.b[1], first_column, words.parts[0], sums, true);
  }
  StartPart<Shape>(chunk.b[0], first_column, words.parts[0], sums, true);
  CloseProducts();
}
#else
// The same without tensor cores.
template <class Shape, int>
void PrepareColumns(typename Shape::Chunk&) {}

template <class Shape>
void ReadLeft(const typename Shape::Chunk&, int, typename Shape::LeftWords&) {}

template <class Shape>
void HoldLeft(const typename Shape::LeftWords&) {}

template <class Shape>
void StartProducts(const typename Shape::Chunk& chunk, int first_row, int first_column,
                   const typename Shape::LeftWords&, float (&sums)[8][4]) {
  const int row = first_row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
  const int column = first_column + threadIdx.x % 4 * 2;
  for (int i = 0; i < 32; ++i) {
    float& sum = sums[i / 4][i % 4];
    if (Shape::kIsSplit) sum = 0.0f;
    for (int word = 0; word < Shape::kChunkWords; ++word) {
      const unsigned a = *chunk.a.at(row + i % 4 / 2 * 8, word);
      const unsigned b = *chunk.b[0].at(column + i / 4 * 8 + i % 2, word);
      for (int half = 0; half < (kIsOfFloats<Shape::kArithmetic> ? 1 : 2); ++half) {
        sum += NumberIn<Shape::kArithmetic>(a, half) * NumberIn<Shape::kArithmetic>(b, half);
      }
    }
  }
}
#endif

// Adds the sums of a chunk, which have been awaited.
__device__ __forceinline__ void AddChunk(float (&chunk_sums)[8][4], float (&sums)[8][4]) {
  HoldSums(chunk_sums);
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[i / 4][i % 4] += chunk_sums[i / 4][i % 4];
}

// memory.sums = a x b^T. `rows` and `columns` of the tile exist; a row of either operand is
// `row_bytes` long and begins at a multiple of kCopyBytes.
template <class Shape, int kCopyBytes>
__device__ __forceinline__ void MultiplyTileByWarpgroups(const void* a, int rows, const void* b,
                                                         int columns, int row_bytes,
                                                         typename Shape::Memory& memory) {
  static_assert(kCopyBytes >= 4);
  constexpr int kStages = Shape::kStages, kBlocks = Shape::kBlocks;
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for a whole warp
  const int row = group % Shape::kRowGroups * 64;
  const int column = group / Shape::kRowGroups * (64 * kBlocks);
  const int chunks = (row_bytes + Shape::kChunkBytes - 1) / Shape::kChunkBytes;
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      typename Shape::Chunk& to = memory.chunks[chunk % kStages];
      LoadChunk<Shape, kCopyBytes, Shape::kRows>(to.a, a, rows, row_bytes, chunk);
      LoadChunk<Shape, kCopyBytes, Shape::kColumns>(to.b[0], b, columns, row_bytes, chunk);
    }
    CloseCopies();
  };
  for (int chunk = 0; chunk < kStages - 1; ++chunk) load(chunk);
  AwaitCopies<kStages - 2>();
  PrepareColumns<Shape, kCopyBytes>(memory.chunks[0]);
  __syncthreads();
  typename Shape::LeftWords words[2];
  ReadLeft<Shape>(memory.chunks[0], row, words[0]);
  float sums[kBlocks][8][4] = {};
  const auto multiply = [&](int chunk, const typename Shape::LeftWords& now,
                            typename Shape::LeftWords& next) {
    float chunk_sums[kBlocks][8][4];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      StartProducts<Shape>(memory.chunks[chunk % kStages], row, column + 64 * block, now,
                           (Shape::kIsSplit ? chunk_sums : sums)[block]);
    }
    if constexpr (!Shape::kIsSplit) {
      AwaitProducts<kBlocks>();  // those of the chunk before
      HoldLeft<Shape>(next);
    }
    AwaitCopies<kStages - 3>();
    PrepareColumns<Shape, kCopyBytes>(memory.chunks[(chunk + 1) % kStages]);
    __syncthreads();  // the next chunk is there, and all are done with the one before
    ReadLeft<Shape>(memory.chunks[(chunk + 1) % kStages], row, next);
    load(chunk + kStages - 1);
    // Tensor cores round sums toward zero, so those of split floats end with a chunk and are added
    // to nearest.
    if constexpr (Shape::kIsSplit) {
      AwaitProducts<0>();
      HoldLeft<Shape>(now);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) AddChunk(chunk_sums[block], sums[block]);
    }
  };
  for (int chunk = 0; chunk < chunks; chunk += 2) {
    multiply(chunk, words[0], words[1]);
    if (chunk + 1 < chunks) multiply(chunk + 1, words[1], words[0]);
  }
  AwaitProducts<0>();
  AwaitCopies<0>();
  __syncthreads();
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    HoldSums(sums[block]);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      memory.sums[0][row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8]
                 [column + 64 * block + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] =
          sums[block][i / 4][i % 4];
    }
  }
  __syncthreads();
}
