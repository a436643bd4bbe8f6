// Attention of few queries (attention_tile.cuh), which have too few blocks for the whole GPU: the
// keys are divided among the warps of a block and the blocks of a cluster (block_cluster.cuh). In
// the end, the sums over all parts are joined; each is relative to the largest score of its part
// (Flash-Decoding: Dao, Haziza, Massa and Sizov, 2023).

// The sums of a warp, a block or a cluster over its part of the keys, for each query of the block:
// those of AttentionSums.
template <class Shape>
struct SumsOfPart {
  float most[Shape::kQueries], total[Shape::kQueries];
  float values[Shape::kQueries][Shape::kColumns];
};

// They overwrite Shape::Memory.
template <class Shape>
struct KeyParts {
  SumsOfPart<Shape> warps[Shape::kKeyWarps], block;
};

// Which keys a block has: of every kClusterBlocks tiles, the one with the number of the block in
// its cluster.
template <int kBlocks>
struct KeyCluster {
  static constexpr int kClusterBlocks = kHasClusters ? kBlocks : 1;

  __device__ __forceinline__ static int Number() { return blockIdx.x % kClusterBlocks; }
  // How many of `tiles` tiles this block has.
  __device__ __forceinline__ static int CountTiles(int tiles) {
    return (tiles - Number() + kClusterBlocks - 1) / kClusterBlocks;
  }
  // The first key of this block's tile number `tile`.
  template <class Shape>
  __device__ __forceinline__ static int FirstKey(int tile) {
    return (tile * kClusterBlocks + Number()) * Shape::kKeys;
  }
};

// Joins the sums of kParts parts for one column of a query. read(of_first, i) reads of part i the
// number that `of_first` points to in the first part; write(place, sum) stores a sum in its place
// of `joined`. Without softmax, scores are not relative to anything.
template <bool kSoftmax, int kParts, class Shape, class Read, class Write>
__device__ __forceinline__ void JoinColumn(const SumsOfPart<Shape>& first, const Read& read,
                                           int query, int column, SumsOfPart<Shape>& joined,
                                           const Write& write) {
  float most[kParts], total[kParts], value[kParts];
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    most[i] = read(&first.most[query], i);
    total[i] = read(&first.total[query], i);
    value[i] = read(&first.values[query][column], i);
  }
  float largest = NoScore();
#pragma unroll
  for (int i = 0; i < kParts; ++i) largest = fmaxf(largest, most[i]);
  const float shift = largest == NoScore() ? 0.0f : largest;  // all scores are -infinity
  float totals = 0.0f, values = 0.0f;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const float share = kSoftmax ? expf(most[i] - shift) : 1.0f;
    totals += share * total[i];
    values += share * value[i];
  }
  write(&joined.values[query][column], values);
  if (column == 0) {
    write(&joined.most[query], largest);
    write(&joined.total[query], totals);
  }
}

// Joins the sums of all parts of the keys for the first `left` queries of the block. Returns true
// in the threads of the cluster's first warp, whose `sums` are then those over all keys. All other
// threads have nothing left to do.
template <class Shape, class Cluster, bool kSoftmax>
__device__ __forceinline__ bool JoinKeyParts(AttentionSums<Shape>& sums,
                                             typename Shape::Memory& memory, long long left) {
  const int queries = left < Shape::kQueries ? static_cast<int>(left) : Shape::kQueries;
  using Parts = KeyParts<Shape>;
  static_assert(sizeof(Parts) <= sizeof(memory));
  auto& parts = reinterpret_cast<Parts&>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // no thread reads the tiles anymore
  SumsOfPart<Shape>& own = parts.warps[warp];
#pragma unroll
  for (int row = 0; row < Shape::kRows; ++row) {
    const int query = QueryInTile<Shape>(2 * row);
    const float total = TotalOfRow<Shape>(sums, row);
    if (query >= queries) continue;
    if (lane % 4 == 0) {
      own.most[query] = sums.most[row];
      own.total[query] = total;
    }
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      for (int side = 0; side < 2; ++side) {
        own.values[query][ColumnInTile(piece, side)] = sums.values[0][piece][2 * row + side];
      }
    }
  }
  __syncthreads();
  const auto of_warp = [](const float* of_first, int i) {
    return of_first[i * static_cast<int>(sizeof(SumsOfPart<Shape>) / sizeof(float))];
  };
  const auto in_block = [](float* place, float sum) { *place = sum; };
  for (int i = threadIdx.x; i < queries * Shape::kColumns; i += Shape::kThreads) {
    JoinColumn<kSoftmax, Shape::kKeyWarps>(parts.warps[0], of_warp, i / Shape::kColumns,
                                           i % Shape::kColumns, parts.block, in_block);
  }
  AwaitSums<Cluster>();
  const SumsOfPart<Shape>* joined = &parts.block;
  if constexpr (Cluster::kClusterBlocks > 1) {
    // Each block joins its share of the sums, and stores them to the first block.
    constexpr int kBlocks = Cluster::kClusterBlocks;
    const auto of_block = [](const float* own, int i) { return LoadOfBlock<1>(own, i).at[0]; };
    const auto in_first_block = [](float* own, float sum) { StoreToBlock(own, 0, sum); };
    joined = &parts.warps[0];
    for (int i = kBlocks * threadIdx.x + Cluster::Number(); i < queries * Shape::kColumns;
         i += kBlocks * Shape::kThreads) {
      JoinColumn<kSoftmax, kBlocks>(parts.block, of_block, i / Shape::kColumns, i % Shape::kColumns,
                                    parts.warps[0], in_first_block);
    }
    AwaitCluster();  // a block must not exit while another one reads its shared memory
  }
  if (warp > 0 || Cluster::Number() > 0) return false;
#pragma unroll
  for (int row = 0; row < Shape::kRows; ++row) {
    const int query = QueryInTile<Shape>(2 * row);
    if (query >= queries) continue;
    sums.most[row] = joined->most[query];
    sums.total[row] = lane % 4 == 0 ? joined->total[query] : 0.0f;
#pragma unroll
    for (int piece = 0; piece < Shape::kColumnPieces; ++piece) {
      for (int side = 0; side < 2; ++side) {
        sums.values[0][piece][2 * row + side] = joined->values[query][ColumnInTile(piece, side)];
      }
    }
  }
  return true;
}
