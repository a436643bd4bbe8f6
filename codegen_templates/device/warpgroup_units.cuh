// Warpgroup tiles (matmul_warpgroup.cuh) of numbers that are scaled by units: split floats, and
// E4M3.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Reads the thread's words of `a` in a chunk and splits them into halves. Two of a thread's floats
// in a piece of 8 words become two consecutive halves (PlaceOfHalf), and two pieces become one step
// of 16 halves.
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

// Starts the products of a chunk of split floats and 64 columns.
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

// sums = the products of `chunks` chunks of split floats, for 64 rows. They are still to be
// multiplied by the units of the columns.
template <class Shape>
__device__ __forceinline__ void MultiplySplitStages(int row, int chunks,
                                                    typename Shape::Memory& memory,
                                                    float (&sums)[Shape::kBlocks][8][4]) {
  const auto read = [&](int chunk, typename Shape::LeftWords& words) {
    ReadSplitLeft<Shape>(AwaitChunk<Shape>(chunk, memory), row, words);
  };
#pragma unroll
  for (int i = 0; i < 32 * Shape::kBlocks; ++i) sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
  // This hides the value of `chunks`: if ptxas 13.0 knows that there is one chunk, it computes the
  // products of only one of two blocks.
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

// Adds the sums of a chunk, whose products have completed, to sums in float. Tensor cores keep few
// bits of the sums of E4M3 products, so they add up only the terms of a chunk.
__device__ __forceinline__ void AddChunkSums(float (&added)[8][4], float (&sums)[8][4]) {
  HoldSums(added);
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[i / 4][i % 4] += added[i / 4][i % 4];
}

// sums = the products of `chunks` chunks of E4M3, for 64 rows. They are still to be multiplied by
// the units of the rows and the columns. While the products of a chunk run, the thread reads its
// words of the next chunk; while it adds the sums, the other warpgroups keep the tensor cores busy.
template <class Shape>
__device__ __forceinline__ void MultiplyFloat8Stages(int row, int chunks,
                                                     typename Shape::Memory& memory,
                                                     float (&sums)[Shape::kBlocks][8][4]) {
  using Words = typename Shape::LeftWords;
  const auto multiply = [&](int chunk, const Words& now, Words& next) {
    float chunk_sums[Shape::kBlocks][8][4];
    HoldLeft<Shape>(now);
    BeginProducts();
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      StartPart<Shape>(memory.chunks[chunk % Shape::kStages].b[0], 64 * block, now.parts[0],
                       chunk_sums[block], false);
    }
    CloseProducts();
    if (chunk + 1 < chunks) ReadLeft<Shape>(AwaitChunk<Shape>(chunk + 1, memory), row, next);
    AwaitProducts<0>();
    ReleaseStage<Shape>(chunk, now, memory);
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block)
      AddChunkSums(chunk_sums[block], sums[block]);
  };
#pragma unroll
  for (int i = 0; i < 32 * Shape::kBlocks; ++i) sums[i / 32][i / 4 % 8][i % 4] = 0.0f;
  Words words[2];
  ReadLeft<Shape>(AwaitChunk<Shape>(0, memory), row, words[0]);
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; chunk += 2) {
    multiply(chunk, words[0], words[1]);
    if (chunk + 1 < chunks) multiply(chunk + 1, words[1], words[0]);
  }
}
#endif
