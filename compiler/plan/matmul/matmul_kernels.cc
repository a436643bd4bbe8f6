#include "compiler/plan/matmul/matmul_kernels.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>

#include "compiler/plan/matmul/matmul_ranges.h"

namespace fusec {

namespace {

using Kind = MatMulKernel::Kind;

constexpr int64_t kMostRowsAtOnce = 8;
// Elements of a result (of long sums of split floats more), and multiplications, up to which blocks
// for each of so many rows are ahead of tiles.
constexpr int64_t kMostGroupedElements = 12288;
constexpr int64_t kMostGroupedLongElements = 16384;
constexpr int64_t kMostGroupedProducts = 1 << 25;
constexpr int64_t kEnoughBlocks = 100;  // of the 100 to 150 multiprocessors of a large GPU
// Sums over which few tiles take long while most of a GPU idles: the library shares out such a sum
// among blocks. Of split floats its own products are slow, so that more is gained here.
constexpr int64_t kLongShortSum = 1024;
constexpr int64_t kLongSplitSum = 4096;
// Sums that clusters of our own share out, from rows of so many bytes up to so many terms.
constexpr int64_t kLongRow = 4096;
constexpr int64_t kMostSharedTerms = 16384;
// Elements of a result beyond which the library was ahead on an H200: of float products, and of
// those in a shorter type, for which it has the tensor cores' asynchronous instructions.
constexpr int64_t kMostSplitElements = 1 << 21;
constexpr int64_t kMostShortElements = 1 << 18;
constexpr int64_t kMostHalfElements = 1 << 16;

// Sums so short that a tile of them is mostly filled with zeros: a thread per element is sooner
// done where these are few, and the library where they are many.
constexpr int64_t kTinySum = 16;
constexpr int64_t kMostPlainElements = 1 << 17;
constexpr int64_t kMostTinyElements = 1 << 22;
constexpr MatMulTile kTinyTile = {64, 64, 128, 2, 2, 2, 3};  // in between

// From small to large: each has more reuse and fewer blocks than the one before.
constexpr MatMulTile kTiles[] = {
    {16, 32, 512, 1, 1, 8, 3},
    {32, 64, 256, 1, 2, 4, 3},
    {128, 64, 128, 4, 2, 1, 3},
};
// The same for kNarrowColumns.
constexpr MatMulTile kNarrowTiles[] = {{16, 32, 512, 1, 1, 8, 3}, {64, 32, 256, 2, 1, 4, 3}};

// A tile, and the columns from which on it is planned.
struct PlannedTile {
  MatMulTile tile;
  int64_t least_columns;
};
// In place of the last above, and of the library, for split floats where there are warpgroups; and
// for other numbers, where there is no library. One that is half empty loses to the one before.
constexpr PlannedTile kSplitWarpgroups[] = {
    {kSquareTile, 1}, {Warpgroups(64, 128, 5), 512}, {Warpgroups(128, 128, 4), 65}};
constexpr PlannedTile kShortWarpgroups[] = {
    {kSquareTile, 1}, {kWideTile, 1}, {Warpgroups(128, 256, 4), 129}};
// Clusters share out the square tile's sums where tiles are few: to as many blocks as a large GPU
// runs at once, or half of them where more than a few would have less than a good share of chunks.
constexpr int kFewBlocks = 4;
constexpr int64_t kGoodShare = 6;
constexpr int64_t kFewestBeforeLibrary = 2;  // a block alone loses to it
// Sums from which on such tiles take over where a wave of the smallest above ends, or two of them
// of split floats.
constexpr int64_t kLeastLargeSum = 256;
// Sums up to which a second wave of tiles is ahead of the library, too, whose kernels start when
// the one before has ended.
constexpr int64_t kMostTermsOfTwoWaves = 512;
// Bytes of a row that each block of a few should have; a row of two such shares is left to one.
constexpr int64_t kLeastShare = 512;

// What is measured of these. Of split floats a thread holds sums twice, and a block columns.
constexpr MatMulTile kMeasuredWarpgroups[] = {
    Warpgroups(64, 64, 4),   Warpgroups(64, 128, 4),  Warpgroups(64, 256, 4),
    Warpgroups(128, 64, 4),  Warpgroups(128, 128, 3), Warpgroups(128, 128, 6),
    Warpgroups(128, 256, 4),
};
constexpr MatMulTile kMeasuredSplitWarpgroups[] = {
    Warpgroups(64, 64, 4),  Warpgroups(64, 128, 3),  Warpgroups(64, 128, 5),
    Warpgroups(128, 64, 4), Warpgroups(128, 128, 4),
};

// In place of the first where a whole sum takes no more than a chunk of it.
constexpr MatMulTile kShortTile = {16, 32, 256, 1, 1, 8, 4};

// What is measured besides: a warp's part is a multiple of 16 rows and 8 columns, and of a chunk 32
// bytes; a chunk is a multiple of 128 bytes.
constexpr MatMulTile kMeasuredTiles[] = {
    {16, 32, 256, 1, 1, 8, 4},  {16, 64, 256, 1, 2, 4, 3},  {32, 32, 256, 2, 1, 4, 3},
    {64, 32, 256, 2, 1, 4, 3},  {64, 64, 128, 2, 2, 2, 3},  {64, 64, 128, 4, 2, 1, 4},
    {64, 128, 128, 2, 4, 1, 3}, {128, 64, 128, 4, 2, 1, 4}, {128, 128, 128, 4, 2, 1, 3},
    {16, 32, 512, 1, 1, 8, 3},  {32, 64, 256, 1, 2, 4, 3},  {128, 64, 128, 4, 2, 1, 3},
};

// With `columns` of all products together, each a sum of `k` terms.
MatMulKernel Rows(int64_t rows, int64_t columns, int64_t k) {
  MatMulKernel kernel;
  kernel.kind = Kind::kRows;
  kernel.most_rows = static_cast<int>(rows);
  // Warps to fill the GPU, as long as each has a few loads to do; one that meets several rows is
  // enough where columns are few.
  int& warps = kernel.warps_per_column;
  while (warps < 8 && columns * warps < 2048) {
    const int64_t loads = k / (64 * std::gcd(k, int64_t{4}) * warps);  // of twice as many
    const bool is_worth = rows == 1                ? k / (128 * warps) >= 4
                          : columns * warps < 1024 ? loads >= 1
                                                   : loads >= 4;
    if (!is_worth) break;
    warps *= 2;
  }
  return kernel;
}

// Rows up to which blocks for each kMostRowsAtOnce are ahead of tiles; 0 where they never are.
int64_t MostGroupedRows(const MatMulPlan& matmul, const PlanOptions& options) {
  const Dtype dtype = matmul.result->type.dtype;
  const int64_t k = *matmul.k.AsConstant();
  const int64_t columns = *matmul.n.AsConstant() * *matmul.batch.AsConstant();
  if (DtypeBytes(dtype) == 2) return 0;
  const bool is_long = IsSplit(dtype, options.matmul_precision) && RowBytes(matmul) >= kLongRow;
  const int64_t elements = is_long ? kMostGroupedLongElements : kMostGroupedElements;
  const int64_t rows = std::min(elements, kMostGroupedProducts / k) / columns;
  return rows / kMostRowsAtOnce * kMostRowsAtOnce;
}

// The fewest rows of each of `matrices` products that give `tile` enough blocks.
int64_t FirstRows(const MatMulTile& tile, int64_t n, int64_t matrices) {
  return (CeilDiv(kEnoughBlocks, CeilDiv(n, tile.columns) * matrices) - 1) * tile.rows + 1;
}

// The fewest rows that fill half of a tile: with less, a smaller one is ahead.
int64_t HalfOf(const MatMulTile& tile) { return tile.rows / 2 + 1; }

// The fewest rows of each product that give `tile` enough blocks and fill half of one.
int64_t FirstFilledRows(const MatMulTile& tile, int64_t n, int64_t matrices) {
  return std::max(FirstRows(tile, n, matrices), HalfOf(tile));
}

// Tiles by warps from small to large, for `n` columns.
std::span<const MatMulTile> SmallTiles(int64_t n) {
  return n <= kNarrowColumns ? std::span<const MatMulTile>(kNarrowTiles) : kTiles;
}

bool TakesOwnKernel(const MatMulPlan& matmul) {
  const Dtype dtype = matmul.result->type.dtype;
  const int64_t matrices = matmul.batch.AsConstant().value_or(0);
  return dtype != Dtype::kF64 && !matmul.a.transposed && matmul.b.transposed && matrices > 0 &&
         matrices <= kMostMatrices && matmul.n.AsConstant().value_or(0) > 0 &&
         matmul.k.AsConstant().value_or(0) > 0 && *matmul.k.AsConstant() < INT32_MAX / 8;
}

// The chunks of a tile's sums.
int64_t ChunksOf(const MatMulPlan& matmul, const MatMulTile& tile) {
  return CeilDiv(RowBytes(matmul), tile.chunk_bytes);
}

bool IsTiny(const MatMulPlan& matmul) { return *matmul.k.AsConstant() <= kTinySum; }

// Of which the library makes the product and the gelu by two kernels, or one that takes as long.
bool IsFloatGelu(const MatMulPlan& matmul) {
  return matmul.result->type.dtype == Dtype::kF32 && matmul.activation == "gelu_tanh";
}

// Whether tiles by warpgroups would find work.
bool TakesLargeTiles(const MatMulPlan& matmul, const PlanOptions& options) {
  return TakesWarpgroups(matmul, options) && !IsTiny(matmul) &&
         *matmul.n.AsConstant() > kNarrowColumns;
}

// Whether clusters are ahead of smaller tiles and, where tiles are few, of the library.
bool TakesClusters(const MatMulPlan& matmul, const PlanOptions& options) {
  return TakesLargeTiles(matmul, options) && RowBytes(matmul) >= kLongRow &&
         *matmul.k.AsConstant() <= kMostSharedTerms && *matmul.batch.AsConstant() == 1;
}

// The first rows that the library makes, since the result is large.
int64_t FirstRowsOfLibrary(const MatMulPlan& matmul, bool is_split) {
  const bool is_half = DtypeBytes(matmul.result->type.dtype) == 2;
  const int64_t most = IsTiny(matmul) ? kMostTinyElements
                       : is_split     ? kMostSplitElements
                       : is_half      ? kMostHalfElements
                                      : kMostShortElements;
  // By one call, or one for each matrix.
  const int64_t together = matmul.bias_stride.IsConstant(0) ? *matmul.batch.AsConstant() : 1;
  return most / (*matmul.n.AsConstant() * together) + 1;
}

// Kernels for a row alone, for up to half of kMostRowsAtOnce and, unless tiles of so few rows fill
// the GPU, for more, in groups where these are ahead. They say where they end, and what is added
// behind them begins there at the earliest.
std::vector<MatMulRange> FewRows(const MatMulPlan& matmul, const PlanOptions& options,
                                 bool tiles_fill) {
  constexpr int64_t kHalf = kMostRowsAtOnce / 2;
  const int64_t columns = *matmul.n.AsConstant() * *matmul.batch.AsConstant();
  const int64_t k = *matmul.k.AsConstant();
  std::vector<MatMulRange> kernels = {{Rows(1, columns, k), 0, 1},
                                      {Rows(kHalf, columns, k), 2, kHalf}};
  if (tiles_fill) return kernels;
  const int64_t grouped = MostGroupedRows(matmul, options);
  kernels.push_back(
      {Rows(kMostRowsAtOnce, columns, k), kHalf + 1, std::max(grouped, kMostRowsAtOnce)});
  kernels.back().kernel.in_groups = grouped > kMostRowsAtOnce;
  return kernels;
}

void AddLibrary(int64_t from, std::vector<MatMulRange>& kernels) {
  MatMulRange large;
  large.from = std::max(from, FirstOfMany(kernels));
  while (kernels.back().from >= large.from) kernels.pop_back();
  kernels.push_back(large);
}

// Tiles by warpgroups from `from` rows on, each shared out to `most` blocks and, the more tiles
// there are, to ever fewer, down to `fewest`. Returns the rows from which on there are enough of
// these.
int64_t AddClusters(const MatMulPlan& matmul, int64_t from, int most, int64_t fewest,
                    std::vector<MatMulRange>& kernels) {
  MatMulTile tile = kSquareTile;
  const int64_t chunks = ChunksOf(matmul, tile), n = *matmul.n.AsConstant();
  for (int blocks = most; blocks >= fewest; blocks /= 2) {
    tile.cluster_blocks = blocks;
    AddTile(Kind::kWarpgroups, tile, from, kernels);
    const bool is_worth = blocks <= kFewBlocks || chunks / blocks >= kGoodShare;
    const int64_t tiles = (is_worth ? kMostBlocks : kMostBlocks / 2) / blocks;
    from = std::max(from, RowsBeyond(tiles, tile, n, *matmul.batch.AsConstant()));
  }
  return from;
}

// How many blocks, of a few, make a square tile: of split floats, whose kernels take long to
// compile, no more than two.
int BlocksOfFew(const MatMulPlan& matmul, bool is_split) {
  const int64_t row_bytes = RowBytes(matmul);
  if (*matmul.batch.AsConstant() > 1 || row_bytes <= 2 * kLeastShare) return 1;
  const int blocks = row_bytes < kFewBlocks * kLeastShare ? 2 : kFewBlocks;
  return is_split ? blocks / 2 : blocks;
}

// Tiles by warps, from small to large where others make many rows, or small ones and then tiles by
// warpgroups. Returns the rows from which on the library is ahead.
int64_t AddSmallTiles(const MatMulPlan& matmul, const PlanOptions& options, bool own_at_any_size,
                      std::vector<MatMulRange>& kernels) {
  const int64_t n = *matmul.n.AsConstant(), k = *matmul.k.AsConstant();
  const int64_t matrices = *matmul.batch.AsConstant();
  const std::span<const MatMulTile> tiles = SmallTiles(n);
  const bool is_short = RowBytes(matmul) <= kShortTile.chunk_bytes;
  AddTile(Kind::kTile, is_short ? kShortTile : tiles[0], 0, kernels);
  const bool is_split = IsSplit(matmul.result->type.dtype, options.matmul_precision);
  const int64_t enough = FirstRows(tiles[1], n, matrices);
  if (TakesLargeTiles(matmul, options) && k >= kLeastLargeSum) {
    const int64_t least = HalfOf(kSquareTile);
    if (enough < least)
      AddTile(Kind::kTile, tiles[1], FirstFilledRows(tiles[1], n, matrices), kernels);
    const int64_t next_wave = RowsBeyond((is_split ? 2 : 1) * kMostBlocks, tiles[0], n, matrices);
    const int blocks = BlocksOfFew(matmul, is_split);
    const int64_t one_wave =
        AddClusters(matmul, std::max(std::min(next_wave, enough), least), blocks, 1, kernels);
    if (own_at_any_size || k > kMostTermsOfTwoWaves) return one_wave;
    const MatMulTile& last = n > kSquareTile.columns ? kWideTile : kSquareTile;
    AddTile(Kind::kWarpgroups, last, FirstFilledRows(last, n, matrices), kernels);
    return RowsBeyond(2 * kMostBlocks, last, n, matrices);
  }
  AddTile(Kind::kTile, tiles[1], FirstFilledRows(tiles[1], n, matrices), kernels);
  if (!own_at_any_size && tiles.size() > 2)
    AddTile(Kind::kTile, tiles[2], FirstFilledRows(tiles[2], n, matrices), kernels);
  return FirstRowsOfLibrary(matmul, is_split);
}

// Tiles by warpgroups for more rows: those that are enough blocks, or of which one wave makes what
// takes two of tiles half as large.
void AddLargeTiles(const MatMulPlan& matmul, bool is_split, std::vector<MatMulRange>& kernels) {
  const int64_t n = *matmul.n.AsConstant(), matrices = *matmul.batch.AsConstant();
  const std::span<const PlannedTile> planned =
      is_split ? std::span<const PlannedTile>(kSplitWarpgroups) : kShortWarpgroups;
  for (const auto& [tile, least_columns] : planned) {
    if (n < least_columns) continue;
    const MatMulTile& last = kernels.back().kernel.tile;
    int64_t from = FirstFilledRows(tile, n, matrices);
    if (is_split && tile.rows * tile.columns == 2 * last.rows * last.columns) {
      const int64_t second_wave = RowsBeyond(kMostBlocks, last, n, matrices);
      from = std::min(from, std::max(second_wave, kernels.back().from));
    }
    AddTile(Kind::kWarpgroups, tile, from, kernels);
  }
}

// A thread per element for results that are small, in place of what serves more rows than one
// there.
void AddPlain(int64_t columns, std::vector<MatMulRange>& kernels) {
  const int64_t next = kMostPlainElements / columns + 1;
  if (next <= 2) return;
  auto serving = kernels.end();
  while ((--serving)->from > next) {
  }
  serving->from = next;
  MatMulRange plain;
  plain.kernel.kind = Kind::kPlain;
  plain.from = 2;
  kernels.insert(kernels.erase(kernels.begin() + 1, serving), plain);
}

// Of products that read both operands; the library's where it is ahead and there is one.
std::vector<MatMulRange> KernelsThatRead(const MatMulPlan& matmul, const PlanOptions& options,
                                         bool library) {
  const int64_t n = *matmul.n.AsConstant(), k = *matmul.k.AsConstant();
  const int64_t matrices = *matmul.batch.AsConstant();
  const bool is_split = IsSplit(matmul.result->type.dtype, options.matmul_precision);
  const bool clusters = TakesClusters(matmul, options);
  const bool own_at_any_size =
      TakesLargeTiles(matmul, options) && (is_split || IsFloatGelu(matmul) || !library);
  const bool by_library =
      library && !clusters && k > (is_split ? kLongSplitSum : kLongShortSum) && !IsTiny(matmul);
  const bool tiles_fill =
      !clusters && !by_library && !IsTiny(matmul) && FirstRows(SmallTiles(n)[0], n, matrices) <= 1;
  // By rising `from`; the last one has no end.
  std::vector<MatMulRange> kernels = FewRows(matmul, options, tiles_fill);
  if (IsTiny(matmul)) {
    AddTile(Kind::kTile, kTinyTile, kMostPlainElements / (n * matrices) + 1, kernels);
    if (library) AddLibrary(FirstRowsOfLibrary(matmul, is_split), kernels);
  } else if (by_library) {
    AddLibrary(0, kernels);
  } else {
    const int64_t large_from =
        clusters ? AddClusters(matmul, 0, kMostClusterBlocks,
                               own_at_any_size ? 1 : kFewestBeforeLibrary, kernels)
                 : AddSmallTiles(matmul, options, own_at_any_size, kernels);
    if (own_at_any_size)
      AddLargeTiles(matmul, is_split, kernels);
    else if (library)
      AddLibrary(large_from, kernels);
  }
  if (IsTiny(matmul)) AddPlain(n * matrices, kernels);
  return kernels;
}

}  // namespace

std::vector<MatMulRange> ChooseMatMulKernels(const MatMulPlan& matmul, const PlanOptions& options,
                                             const Ranges& ranges, bool library) {
  if (!TakesOwnKernel(matmul)) return std::vector<MatMulRange>(library ? 1 : 0);
  const auto rows = ranges.IntervalOf(matmul.m);
  std::vector<MatMulRange> kernels =
      matmul.made ? KernelsThatMake(matmul, options) : KernelsThatRead(matmul, options, library);
  std::vector<MatMulRange> needed;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (i + 1 < kernels.size()) kernels[i].to = kernels[i + 1].from - 1;
    if (kernels[i].to >= rows.low && kernels[i].from <= rows.high) needed.push_back(kernels[i]);
  }
  needed.front().from = 0;
  needed.back().to = INT64_MAX;
  return needed;
}

std::vector<MatMulKernel> MatMulCandidates(const MatMulPlan& matmul, int64_t rows,
                                           const PlanOptions& options) {
  std::vector<MatMulKernel> candidates;
  if (!TakesOwnKernel(matmul)) return candidates;
  const int64_t k = *matmul.k.AsConstant();
  constexpr int64_t kMostGroupedRowsMeasured = 64, kFewestOfWarpgroups = 17;
  const int64_t fewest_of_warpgroups = matmul.made ? 2 : kFewestOfWarpgroups;
  const auto add_rows = [&](uint64_t most_rows, bool in_groups) {
    MatMulKernel kernel;
    kernel.kind = Kind::kRows;
    kernel.most_rows = static_cast<int>(most_rows);
    kernel.in_groups = in_groups;
    for (int warps = 1; warps <= 8 && (warps == 1 || k >= 64 * warps); warps *= 2) {
      kernel.warps_per_column = warps;
      candidates.push_back(kernel);
    }
  };
  if (rows <= kMostRowsAtOnce)
    add_rows(std::bit_ceil(static_cast<uint64_t>(rows)), false);
  else if (rows <= kMostGroupedRowsMeasured)
    add_rows(kMostRowsAtOnce, true);
  const bool is_split = IsSplit(matmul.result->type.dtype, options.matmul_precision);
  const auto add = [&](MatMulKernel::Kind kind, const MatMulTile& tile) {
    MatMulKernel kernel;
    kernel.kind = kind;
    kernel.tile = tile;
    if (kernel.shared_bytes(is_split) <= SharedBytesOf(options.architecture))
      candidates.push_back(kernel);
  };
  for (const MatMulTile& tile : kMeasuredTiles) add(Kind::kTile, tile);
  if (!TakesWarpgroups(matmul, options) || rows < fewest_of_warpgroups) return candidates;
  const std::span<const MatMulTile> tiles =
      is_split ? std::span<const MatMulTile>(kMeasuredSplitWarpgroups) : kMeasuredWarpgroups;
  for (MatMulTile tile : tiles) {
    add(Kind::kWarpgroups, tile);
    const int64_t count = CeilDiv(rows, tile.rows) * CeilDiv(*matmul.n.AsConstant(), tile.columns) *
                          *matmul.batch.AsConstant();
    const int64_t most =
        std::min<int64_t>({2 * kMostBlocks / count, ChunksOf(matmul, tile), kMostClusterBlocks});
    for (tile.cluster_blocks = 2; tile.cluster_blocks <= most; tile.cluster_blocks *= 2)
      add(Kind::kWarpgroups, tile);
  }
  return candidates;
}

}  // namespace fusec
