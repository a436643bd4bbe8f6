#include "compiler/plan/matmul/choose_schedules.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/plan/matmul/policy.h"

namespace fusec {

namespace {

using schedule::Rows;
using schedule::Tile;
using schedule::Warpgroup;

// Up to this many multiplications, groups of a few rows are faster than tiles
// (2026-11-23-h200-few-rows.txt).
constexpr int64_t kMostGroupedProducts = 1 << 25;
// Split-K in clusters, if there are few tiles: each block should have at least kGoodShare chunks,
// unless a cluster has at most kFewBlocks blocks. Where the library is an alternative, a single
// block is slower than the library, so that a cluster has at least kFewestBeforeLibrary
// (2026-11-23-h200-clusters.txt).
constexpr int kFewBlocks = 4;
constexpr int64_t kGoodShare = 6;
constexpr int kFewestBeforeLibrary = 2;
// Few rows on tensor cores (2026-11-29-h200-packed-weights.txt): the most warps of a block that
// split the depth, warps per multiprocessor, the fewest terms of a warp, and its lanes that share a
// column.
constexpr int64_t kMostWarpsOfFewRows = 16, kWarpsTogether = 32, kLeastTermsOfWarp = 64;
constexpr int64_t kLanesOfColumn = 4;
// The most rows of products by packed weights that one kernel computes.
constexpr int64_t kMostPackedRows = 32;
// On a CPU, up to this many rows share the weights of a column that a kernel computes.
constexpr int kFewRowsOfCpu = 8;
// The fewest bytes of a row per block of a small cluster. A row of up to two such shares is not
// split.
constexpr int64_t kLeastShareBytes = 512;
// From kLeastTermsOfWarpgroups terms on, warpgroup tiles are used as soon as the smallest warp
// tiles fill a wave. Up to kMostTermsOfTwoWaves terms, a second wave of warpgroup tiles is also
// faster than the library, whose kernels start only when the previous kernel has ended
// (2026-11-23-h200-waves.txt).
constexpr int64_t kLeastTermsOfWarpgroups = 256;
constexpr int64_t kMostTermsOfTwoWaves = 512;

// How many warps split the sums of a column so that the whole GPU has work. Each warp should have
// at least four loads; with several rows and few columns, one is enough.
int WarpsThatFillTheGpu(int64_t rows, int64_t columns, int64_t k) {
  constexpr int kMostWarps = 8;
  constexpr int64_t kManyWarps = 2048, kFewWarps = 1024;  // for all columns together
  int warps = 1;
  while (warps < kMostWarps && columns * warps < kManyWarps) {
    const int64_t loads = k / (64 * std::gcd(k, int64_t{4}) * warps);  // with twice the warps
    const bool is_worth = rows == 1                     ? k / (128 * warps) >= 4
                          : columns * warps < kFewWarps ? loads >= 1
                                                        : loads >= 4;
    if (!is_worth) break;
    warps *= 2;
  }
  return warps;
}

// The same for kernels that compute the left operand themselves. Each warp should have many terms.
int WarpsThatMakeShares(int64_t rows, int64_t k) {
  constexpr uint64_t kMostWarps = 4;
  constexpr int64_t kShareOfOneRow = 512, kShareOfFewRows = 256;  // terms
  const int64_t share = rows == 1 ? kShareOfOneRow : kShareOfFewRows;
  return static_cast<int>(
      std::clamp<uint64_t>(std::bit_floor(static_cast<uint64_t>(k / share)), 1, kMostWarps));
}

// Chooses among the tiles of a policy for one product.
class Chooser {
 public:
  Chooser(const MatMulPlan& matmul, const PlanOptions& options, bool library)
      : matmul_(matmul),
        gpu_(*options.gpu),
        policy_(PolicyFor(matmul, options)),
        n_(*matmul.n.AsConstant()),
        k_(*matmul.k.AsConstant()),
        matrices_(*matmul.batch.AsConstant()),
        library_(library) {}

  MatMulRanges Choose() {
    if (IsFloat8(policy_.arithmetic)) {
      AddTilesOfCodes();
      return ranges_;
    }
    if (policy_.makes_operand) {
      AddTilesThatMake();
      return ranges_;
    }
    const bool by_library =
        library_ && !TakesClusters() && !IsTiny() && k_ > policy_.most_own_terms;
    AddFewRows(!by_library && !TakesClusters() && !IsTiny() && TilesFill() &&
               matmul_.made_right == nullptr);  // tiles read the dequantized weights
    if (IsTiny())
      AddTinySums();
    else if (by_library)
      Follow(schedule::Library(), 0, ranges_);
    else
      AddTilesThatRead();
    return ranges_;
  }

 private:
  bool IsTiny() const { return k_ <= kTinySum; }
  // The number of blocks that run at once, with one block per multiprocessor.
  int64_t Wave() const { return gpu_.multiprocessors(); }
  // The number of blocks that keeps most of the GPU busy.
  int64_t EnoughBlocks() const { return Wave() * 3 / 4 + 1; }

  // Whether the product is wide and deep enough for warpgroup tiles, and the GPU has them.
  bool TakesLargeTiles() const { return policy_.by_warpgroups && !IsTiny() && n_ > kNarrowColumns; }
  // Whether clusters are faster than smaller tiles and, if there are few tiles, than the library.
  bool TakesClusters() const {
    return TakesLargeTiles() && RowBytes(matmul_) >= kLongRowBytes && k_ <= kMostSharedTerms &&
           matrices_ == 1;
  }
  // Whether generated kernels serve all sizes. For a product with a gelu in f32, the library needs
  // two kernels, or one that takes as long as both.
  bool IsOwnAtAnySize() const {
    const bool is_float_gelu = matmul_.dtype == Dtype::kF32 && matmul_.activation == "gelu_tanh";
    return TakesLargeTiles() && (policy_.is_ahead_of_library || is_float_gelu || !library_);
  }

  // The warp tiles for the product's number of columns, from small to large.
  std::vector<Tile> SmallTiles() const {
    std::vector<Tile> tiles;
    for (const Planned<Tile>& planned : policy_.tiles) {
      if (planned.Serves(n_)) tiles.push_back(planned.tile);
    }
    return tiles;
  }
  // Whether the smallest tiles keep the GPU busy even for a single row.
  bool TilesFill() const {
    return RowsFor(EnoughBlocks(), SmallTiles()[0], n_, matrices_).rows <= 1;
  }
  // The warpgroup tile whose depth clusters split, and the tile for a second wave.
  const Warpgroup& SquareTile() const { return policy_.large_tiles[0].tile; }
  const Warpgroup& WideTile() const { return policy_.large_tiles[1].tile; }

  // The fewest rows of each product with which `tile` has enough blocks, if `together` blocks share
  // a multiprocessor, and with which more than half of a tile is filled.
  FirstRows FirstFilledRows(const schedule::ResultTile& tile, int together = 1) const {
    return std::max(RowsFor(together * EnoughBlocks(), tile, n_, matrices_),
                    FirstRows(HalfOf(tile)));
  }
  // How many blocks of `tile` should share a multiprocessor. As long as each block has a
  // multiprocessor of its own, tiles smaller than those of two warpgroups are faster.
  int BlocksTogether(const Warpgroup& tile) const {
    return tile.groups() > 1 && tile.HasNeighbour(policy_.arithmetic, false) ? 2 : 1;
  }
  // The number of rows from which on the result is so large that the library computes it.
  int64_t FirstRowsOfLibrary() const {
    const int64_t most = IsTiny() ? kMostTinyElements : policy_.most_own_elements;
    // The library computes all matrices in one call, or needs one call for each matrix.
    const int64_t together = matmul_.bias_stride.IsConstant(0) ? matrices_ : 1;
    return most / (n_ * together) + 1;
  }
  // The most rows for which groups are faster than tiles; 0 if they never are.
  int64_t MostGroupedRows() const {
    const int64_t elements = RowBytes(matmul_) >= kLongRowBytes
                                 ? policy_.most_grouped_elements_of_long
                                 : policy_.most_grouped_elements;
    const int64_t rows = std::min(elements, kMostGroupedProducts / k_) / (n_ * matrices_);
    return rows / policy_.most_rows_at_once * policy_.most_rows_at_once;
  }

  // How many warps of a block split the depth of 16 columns, so that the GPU has enough of them.
  Rows FewRowsOnTensorCores(int64_t rows) const {
    const int64_t groups = CeilDiv(n_, Rows::kTileColumns);
    const int64_t most = std::min<int64_t>(kMostWarpsOfFewRows, Rows::kMostSums / rows);
    int64_t warps = 1;
    const int64_t pack = matmul_.made_right ? Rows::kMostPackedPack : Rows::kMostPack;
    while (2 * warps <= most && groups * warps < kWarpsTogether * Wave() &&
           k_ >= 2 * warps * kLeastTermsOfWarp) {
      // If a block holds all weights of its columns before it waits for the rows, all blocks should
      // be on the GPU by then.
      const bool holds_all = k_ <= kLanesOfColumn * pack * Rows::kMostFirstSteps * warps;
      if (holds_all && groups * 2 * warps > kWarpsTogether * Wave()) break;
      warps *= 2;
    }
    return {static_cast<int>(rows), false, {.warps = static_cast<int>(warps)}, true};
  }

  // Adds kernels for one row and for few rows on tensor cores. If the weights are packed, they
  // serve as many rows as possible, because other kernels read dequantized weights.
  void AddFewRowsOnTensorCores() {
    const bool is_packed = matmul_.made_right != nullptr;
    ranges_ = {{is_packed ? FewRowsOnTensorCores(8) : FewRows(1), 0, is_packed ? 8 : 1}};
    if (!is_packed) ranges_.push_back({FewRowsOnTensorCores(8), 2, 8});
    for (int64_t rows = 16; is_packed && rows <= kMostPackedRows; rows *= 2)
      ranges_.push_back({FewRowsOnTensorCores(rows), rows / 2 + 1, rows});
  }

  Rows FewRows(int64_t rows) const {
    const int warps = policy_.makes_operand ? WarpsThatMakeShares(rows, k_)
                                            : WarpsThatFillTheGpu(rows, n_ * matrices_, k_);
    return {static_cast<int>(rows), false, {.warps = warps}};
  }

  // Adds kernels for one row, for up to half of most_rows_at_once and, unless tiles with so few
  // rows keep the GPU busy, for more rows, in groups if these are faster.
  void AddFewRows(bool tiles_fill) {
    if (Rows::TakesTensorCores(matmul_)) return AddFewRowsOnTensorCores();
    const int64_t most = policy_.most_rows_at_once, half = most / 2;
    ranges_ = {{FewRows(1), 0, 1}, {FewRows(half), 2, half}};
    if (tiles_fill) return;
    const int64_t grouped = MostGroupedRows();
    Rows rows = FewRows(most);
    rows.in_groups = grouped > most;
    ranges_.push_back({rows, half + 1, std::max(grouped, most)});
  }

  // Adds one thread per element for small results, a tile for medium ones, and the library for
  // large ones.
  void AddTinySums() {
    const int64_t many = kMostPlainElements / (n_ * matrices_) + 1;
    Follow(TileOfTinySums(), many, ranges_);
    if (library_) Follow(schedule::Library(), FirstRowsOfLibrary(), ranges_);
    if (many > 2) ServeInPlace(schedule::Plain(), 2, many - 1, ranges_);
  }

  void AddTilesThatRead() {
    const FirstRows large_from =
        TakesClusters()
            ? AddClusters(0, kMostClusterBlocks, IsOwnAtAnySize() ? 1 : kFewestBeforeLibrary)
            : AddSmallTiles();
    if (IsOwnAtAnySize())
      AddLargeTiles();
    else if (library_)
      Follow(schedule::Library(), large_from, ranges_);
  }

  // Adds square tiles from `from` rows on, whose depth is split among `most` blocks and, the more
  // tiles there are, among fewer and fewer, down to `fewest`. A number of blocks is used as long as
  // the GPU runs all blocks at once; only half as many if more than kFewBlocks blocks would have
  // fewer than kGoodShare chunks each. Returns the number of rows from which on there are enough
  // tiles of `fewest` blocks.
  FirstRows AddClusters(FirstRows from, int most, int fewest) {
    Warpgroup tile = SquareTile();
    const int64_t chunks = Warpgroup::Chunks(matmul_, policy_.arithmetic);
    for (int blocks = most; blocks >= fewest; blocks /= 2) {
      tile.split_k.blocks = blocks;
      Follow(tile, from, ranges_);
      const bool is_worth = blocks <= kFewBlocks || chunks / blocks >= kGoodShare;
      const int64_t tiles = (is_worth ? Wave() : Wave() / 2) / blocks;
      from = std::max(from, RowsBeyond(tiles, tile, n_, matrices_));
    }
    return from;
  }

  // How many blocks of a small cluster compute a square tile.
  int BlocksOfFew() const {
    const int64_t row_bytes = RowBytes(matmul_);
    if (matrices_ > 1 || row_bytes <= 2 * kLeastShareBytes) return 1;
    const int most = policy_.most_blocks_of_few;
    return row_bytes < kFewBlocks * kLeastShareBytes ? most / 2 : most;
  }

  // Adds warp tiles from small to large, or small warp tiles followed by warpgroup tiles. Returns
  // the number of rows from which on the library is faster.
  FirstRows AddSmallTiles() {
    const std::vector<Tile> tiles = SmallTiles();
    const Tile& short_sums = TileOfShortSums();
    Follow(RowBytes(matmul_) <= short_sums.chunk_bytes ? short_sums : tiles[0], 0, ranges_);
    if (TakesLargeTiles() && k_ >= kLeastTermsOfWarpgroups) return AddWaves(tiles);
    Follow(tiles[1], FirstFilledRows(tiles[1]), ranges_);
    if (!IsOwnAtAnySize() && tiles.size() > 2) Follow(tiles[2], FirstFilledRows(tiles[2]), ranges_);
    return FirstRowsOfLibrary();
  }

  // Adds warpgroup tiles after one or several waves of the smallest warp tiles. Returns the number
  // of rows from which on the library is faster.
  FirstRows AddWaves(ArrayRef<Tile> tiles) {
    const FirstRows enough = RowsFor(EnoughBlocks(), tiles[1], n_, matrices_);
    const FirstRows least = HalfOf(SquareTile());
    if (enough < least) Follow(tiles[1], FirstFilledRows(tiles[1]), ranges_);
    const FirstRows next_wave =
        RowsBeyond(policy_.waves_of_smallest * Wave(), tiles[0], n_, matrices_);
    const FirstRows one_wave =
        AddClusters(std::max(std::min(next_wave, enough), least), BlocksOfFew(), 1);
    if (IsOwnAtAnySize() || k_ > kMostTermsOfTwoWaves) return one_wave;
    const Warpgroup& last = n_ > SquareTile().columns ? WideTile() : SquareTile();
    Follow(last, FirstFilledRows(last), ranges_);
    return RowsBeyond(2 * Wave(), last, n_, matrices_);
  }

  // Adds warpgroup tiles for more rows: each tile from the rows on with which it has enough blocks,
  // or with which one wave of it replaces two waves of tiles half its size.
  void AddLargeTiles() {
    for (const Planned<Warpgroup>& planned : policy_.large_tiles) {
      if (!planned.Serves(n_)) continue;
      const Warpgroup& tile = planned.tile;
      FirstRows from = FirstFilledRows(tile, BlocksTogether(tile));
      const schedule::ResultTile* last = LastTile();
      if (policy_.doubles_for_second_wave && last != nullptr &&
          tile.rows * tile.columns == 2 * last->rows * last->columns) {
        const FirstRows second_wave = RowsBeyond(Wave(), *last, n_, matrices_);
        from = std::min(from, std::max(second_wave, ranges_.back().from));
      }
      if (tile == policy_.large_tiles.back().tile && PairsMakeLargeTiles()) {
        Warpgroup pair = tile;
        pair.split_k.blocks = 2;
        Follow(pair, RowsFor(CeilDiv(EnoughBlocks(), 2), tile, n_, matrices_), ranges_);
        from = RowsBeyond(Wave() / 2, tile, n_, matrices_);
      }
      Follow(tile, from, ranges_);
    }
    // Instead of two of the largest tiles on a multiprocessor.
    const Warpgroup* wide = policy_.tile_of_long_sums;
    if (wide != nullptr && k_ > kMostTermsOfTwoWaves && n_ > wide->columns / 2)
      Follow(*wide, RowsBeyond(Wave(), policy_.large_tiles.back().tile, n_, matrices_), ranges_);
  }

  // Whether two blocks compute each of the largest tiles if these fill half a wave.
  bool PairsMakeLargeTiles() const {
    const int64_t chunks = Warpgroup::Chunks(matmul_, policy_.arithmetic);
    return policy_.pairs_for_half_a_wave && matrices_ == 1 && chunks >= 4 * kGoodShare;
  }

  // The tile of the last range; null if its schedule is no tile.
  const schedule::ResultTile* LastTile() const {
    const MatMulSchedule& last = ranges_.back().schedule;
    if (const auto* tile = std::get_if<Tile>(&last)) return tile;
    return std::get_if<Warpgroup>(&last);
  }

  // Adds kernels for one row and for few rows, which decode the fp8 codes, and then tiles, which
  // multiply them directly.
  void AddTilesOfCodes() {
    const int64_t few = policy_.most_rows_at_once;
    ranges_ = {{FewRows(1), 0, 1}, {FewRows(few), 2, few}};
    AddClusters(FirstRows(few + 1), TakesClusters() ? kMostClusterBlocks : BlocksOfFew(), 1);
    AddLargeTiles();
  }

  // Adds a kernel for one row, one for few rows unless tiles serve them, and then the tiles.
  void AddTilesThatMake() {
    const int64_t few = policy_.most_rows_at_once;
    const auto serves_few = [&](const auto& planned) {
      return planned.Serves(n_) && planned.from <= few;
    };
    ranges_ = {{FewRows(1), 0, 1}};
    if (std::none_of(policy_.tiles.begin(), policy_.tiles.end(), serves_few) &&
        std::none_of(policy_.large_tiles.begin(), policy_.large_tiles.end(), serves_few))
      ranges_.push_back({FewRows(few), 2, few});
    for (const Planned<Tile>& planned : policy_.tiles) {
      if (planned.Serves(n_)) Follow(planned.tile, planned.from, ranges_);
    }
    for (const Planned<Warpgroup>& planned : policy_.large_tiles) {
      if (planned.Serves(n_)) AddShares(planned);
    }
  }

  // Adds a tile whose depth is split as long as all blocks run at once: among two blocks and, for a
  // single product with enough chunks for each block, first among as many as possible.
  void AddShares(const Planned<Warpgroup>& planned) {
    const int shared_bytes = planned.tile.SharedBytes(policy_.arithmetic);
    const int64_t at_once = 2 * shared_bytes <= gpu_.block_shared_bytes ? 2 * Wave() : Wave();
    const int64_t chunks = Warpgroup::Chunks(matmul_, policy_.arithmetic);
    FirstRows from = planned.from;
    const auto add = [&](int blocks) {
      const FirstRows end = RowsBeyond(at_once / blocks, planned.tile, n_, matrices_);
      if (from >= end) return;
      Warpgroup shared = planned.tile;
      shared.split_k.blocks = blocks;
      Follow(shared, from, ranges_);
      from = end;
    };
    if (matrices_ == 1 && chunks / kMostClusterBlocks >= kGoodShare) add(kMostClusterBlocks);
    add(2);
    Follow(planned.tile, from, ranges_);
  }

  const MatMulPlan& matmul_;
  const Gpu& gpu_;
  const MatMulPolicy& policy_;
  const int64_t n_, k_, matrices_;
  const bool library_;
  MatMulRanges ranges_;
};

// Adds kernels for few rows, with each number of warps for which sums are long enough.
void AddRowCandidates(const MatMulPlan& matmul, int64_t rows,
                      std::vector<MatMulSchedule>& candidates) {
  constexpr int64_t kMostAtOnce = 8, kMostGroupedRows = 64;
  constexpr int kMostWarps = 8, kLeastTerms = 64;  // per warp that splits a sum
  if (rows > kMostGroupedRows) return;
  Rows way;
  way.in_groups = rows > kMostAtOnce;
  way.most_rows =
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min(rows, kMostAtOnce))));
  for (int& warps = way.split_k.warps; warps <= kMostWarps; warps *= 2) {
    if (warps == 1 || *matmul.k.AsConstant() >= kLeastTerms * warps) candidates.push_back(way);
  }
  if (!Rows::TakesTensorCores(matmul)) return;
  const int most =
      static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, 8))));
  for (int warps = 2; warps <= kMostWarpsOfFewRows && most * warps <= Rows::kMostSums; warps *= 2)
    candidates.push_back(Rows{most, false, {.warps = warps}, true});
}

}  // namespace

MatMulRanges ChooseMatMulSchedules(const MatMulPlan& matmul, const PlanOptions& options,
                                   const Ranges& symbols, bool library) {
  if (!TakesOwnKernel(matmul)) return MatMulRanges(library ? 1 : 0);
  return WithEnds(Chooser(matmul, options, library).Choose(), symbols.IntervalOf(matmul.m));
}

MatMulRanges ChooseProductsOfCpu(const MatMulPlan& matmul, const Ranges& symbols) {
  if (!Rows::TakesColumns(matmul)) return MatMulRanges(1);
  MatMulRanges ranges = {{Rows{kFewRowsOfCpu, false, {}}, 0, kFewRowsOfCpu}};
  Follow(schedule::Library(), kFewRowsOfCpu + 1, ranges);
  return WithEnds(std::move(ranges), symbols.IntervalOf(matmul.m));
}

std::vector<MatMulSchedule> MatMulCandidates(const MatMulPlan& matmul, int64_t rows,
                                             const PlanOptions& options) {
  std::vector<MatMulSchedule> candidates;
  if (!TakesOwnKernel(matmul)) return candidates;
  const MatMulPolicy& policy = PolicyFor(matmul, options);
  AddRowCandidates(matmul, rows, candidates);
  for (const Tile& tile : TilesByWarps()) candidates.push_back(tile);
  const bool by_warpgroups = policy.by_warpgroups && rows >= policy.fewest_measured_rows;
  for (Warpgroup tile : TilesByWarpgroups(policy.arithmetic)) {
    if (!by_warpgroups) break;
    const int64_t tiles = CeilDiv(rows, tile.rows) * CeilDiv(*matmul.n.AsConstant(), tile.columns) *
                          *matmul.batch.AsConstant();
    const int64_t chunks = Warpgroup::Chunks(matmul, policy.arithmetic);
    const int64_t most =
        std::min<int64_t>({2 * options.gpu->multiprocessors() / tiles, chunks, kMostClusterBlocks});
    candidates.push_back(tile);
    int& blocks = tile.split_k.blocks;
    for (blocks = 2; blocks <= most; blocks *= 2) candidates.push_back(tile);
  }
  std::erase_if(candidates,
                [&](const MatMulSchedule& schedule) { return !Fits(schedule, matmul, options); });
  return candidates;
}

}  // namespace fusec
