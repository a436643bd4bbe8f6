// A block computes a tile of the product a x b^T on tensor cores. The depth (the axis that is
// summed over) is the innermost axis of both operands.
//
// The operands pass through shared memory in chunks of the depth, in a pipeline of kStages stages.
// In shared memory, 16 bytes of padding follow each row of a chunk, so that the 32 words that a
// warp reads together lie in 32 different banks.

// The sizes of a tile. The tile is divided among kRowWarps x kColumnWarps groups of warps; the
// kDepthWarps warps of a group divide the depth of each chunk among them.
template <Arithmetic kArithmetic_, int kRows_, int kColumns_, int kChunkBytes_, int kRowWarps_,
          int kColumnWarps_, int kDepthWarps_, int kStages_>
struct TileShape {
  static constexpr Arithmetic kArithmetic = kArithmetic_;
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kRowWarps = kRowWarps_, kColumnWarps = kColumnWarps_;
  static constexpr int kDepthWarps = kDepthWarps_, kStages = kStages_;
  static constexpr int kThreads = 32 * kRowWarps * kColumnWarps * kDepthWarps;
  static constexpr int kChunkBytes = kChunkBytes_;
  static constexpr bool kBypass = false;  // blocks of a multiprocessor share rows in L1
  static constexpr int kRowWords = kChunkBytes / 4 + 4;
  static constexpr int kWarpWords = kChunkBytes / 4 / kDepthWarps;  // of a row, for one warp
  // A warp's part of the tile, in pieces of 16 x 8 sums.
  static constexpr int kRowPieces = kRows / kRowWarps / 16;
  static constexpr int kColumnPieces = kColumns / kColumnWarps / 8;

  template <int kCount>
  struct Rows {
    unsigned words[kCount][kRowWords];
    __device__ __forceinline__ unsigned* at(int row, int word) { return words[row] + word; }
  };
  struct Chunk {
    Rows<kRows> a;
    Rows<kColumns> b;
  };
  union alignas(16) Memory {
    Chunk chunks[kStages];
    float sums[kDepthWarps][kRows][kColumns + 8];
  };
};

#ifdef __CUDACC__
// Adds the products of one chunk to the sums of this thread. Tensor cores round sums toward zero.
// To keep that error small, each chunk is summed from zero, and its sums are then added in float,
// which rounds to nearest.
template <class Shape>
__device__ __forceinline__ void MultiplyChunk(
    const typename Shape::Chunk& chunk, int first_row, int first_column, int first_word,
    float (&sums)[Shape::kRowPieces][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
  constexpr int kRowPieces = Shape::kRowPieces, kColumnPieces = Shape::kColumnPieces;
  const int row = first_row + threadIdx.x % 32 / 4;
  const int column = first_column + threadIdx.x % 32 / 4;
  float chunk_sums[kRowPieces][kColumnPieces][4] = {};
#pragma unroll
  for (int step = 0; step < Shape::kWarpWords; step += 8) {
    const int word = first_word + step + threadIdx.x % 4;
    unsigned a[kRowPieces][4], a_low[kRowPieces][4];
    unsigned b[kColumnPieces][2], b_low[kColumnPieces][2];
#pragma unroll
    for (int i = 0; i < kRowPieces; ++i) {
      a[i][0] = chunk.a.words[row + 16 * i][word];
      a[i][1] = chunk.a.words[row + 16 * i + 8][word];
      a[i][2] = chunk.a.words[row + 16 * i][word + 4];
      a[i][3] = chunk.a.words[row + 16 * i + 8][word + 4];
      SplitWords<kArithmetic>(a[i], a_low[i]);
    }
#pragma unroll
    for (int j = 0; j < kColumnPieces; ++j) {
      b[j][0] = chunk.b.words[column + 8 * j][word];
      b[j][1] = chunk.b.words[column + 8 * j][word + 4];
      SplitWords<kArithmetic>(b[j], b_low[j]);
    }
    // The small products come first. Products that add to the same sums are far apart, so that they
    // do not wait for each other.
    if constexpr (kArithmetic == Arithmetic::kSplitTf32) {
      MultiplyPieces<kArithmetic>(chunk_sums, a_low, b);
      MultiplyPieces<kArithmetic>(chunk_sums, a, b_low);
    }
    MultiplyPieces<kArithmetic>(chunk_sums, a, b);
  }
#pragma unroll
  for (int i = 0; i < kRowPieces; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnPieces; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] += chunk_sums[i][j][e];
    }
  }
}
#else
// Computes the same sums without tensor cores.
template <class Shape>
void MultiplyChunk(const typename Shape::Chunk& chunk, int first_row, int first_column,
                   int first_word, float (&sums)[Shape::kRowPieces][Shape::kColumnPieces][4]) {
  constexpr Arithmetic kArithmetic = Shape::kArithmetic;
  const int row = first_row + threadIdx.x % 32 / 4;
  const int column = first_column + threadIdx.x % 4 * 2;
  for (int i = 0; i < Shape::kRowPieces; ++i) {
    for (int j = 0; j < Shape::kColumnPieces; ++j) {
      for (int e = 0; e < 4; ++e) {
        const unsigned* a = chunk.a.words[row + 16 * i + e / 2 * 8];
        const unsigned* b = chunk.b.words[column + 8 * j + e % 2];
        for (int word = first_word; word < first_word + Shape::kWarpWords; ++word) {
          for (int half = 0; half < (kIsOfFloats<kArithmetic> ? 1 : 2); ++half) {
            sums[i][j][e] +=
                NumberIn<kArithmetic>(a[word], half) * NumberIn<kArithmetic>(b[word], half);
          }
        }
      }
    }
  }
}
#endif

// memory.sums = a x b^T + addend, in kDepthWarps parts that TileSum and TileSums (tile_memory.cuh)
// add up. `rows` rows and `columns` columns of the tile exist. A row of either operand has
// `row_bytes` bytes and begins at a multiple of kCopyBytes.
template <class Shape, int kCopyBytes, class Left, class T, class Addend = NoAddend>
__device__ __forceinline__ void MultiplyTile(Left a, int rows, const T* b, int columns,
                                             int row_bytes, typename Shape::Memory& memory,
                                             const Addend& addend = {}) {
  constexpr int kStages = Shape::kStages;
  const int warp = threadIdx.x / 32;
  const int row = warp % Shape::kRowWarps * (16 * Shape::kRowPieces);
  const int column = warp / Shape::kRowWarps % Shape::kColumnWarps * (8 * Shape::kColumnPieces);
  const int depth_warp = warp / (Shape::kRowWarps * Shape::kColumnWarps);
  const int chunks = (row_bytes + Shape::kChunkBytes - 1) / Shape::kChunkBytes;
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      typename Shape::Chunk& to = memory.chunks[chunk % kStages];
      if constexpr (kIsMade<Left>)
        FillChunk(Shape{}, to.a, a, rows, row_bytes, chunk);
      else
        LoadChunk<Shape, kCopyBytes, Shape::kRows>(to.a, a, rows, row_bytes, chunk);
      LoadChunk<Shape, kCopyBytes, Shape::kColumns>(to.b, b, columns, row_bytes, chunk);
    }
    CloseCopies();
  };
  for (int chunk = 0; chunk < kStages - 1; ++chunk) load(chunk);
  float sums[Shape::kRowPieces][Shape::kColumnPieces][4] = {};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    AwaitCopies<kStages - 2>();
    __syncthreads();  // the chunk has arrived, and no thread reads the one to overwrite
    load(chunk + kStages - 1);
    MultiplyChunk<Shape>(memory.chunks[chunk % kStages], row, column,
                         depth_warp * Shape::kWarpWords, sums);
  }
  AwaitCopies<0>();
  __syncthreads();
  for (int i = 0; i < Shape::kRowPieces; ++i) {
    if (depth_warp == 0) addend.AddTo(sums[i], row + 16 * i, column);
    for (int j = 0; j < Shape::kColumnPieces; ++j) {
      for (int e = 0; e < 4; ++e) {
        memory.sums[depth_warp][row + 16 * i + threadIdx.x % 32 / 4 + e / 2 * 8]
                   [column + 8 * j + threadIdx.x % 4 * 2 + e % 2] = sums[i][j][e];
      }
    }
  }
  __syncthreads();
}
