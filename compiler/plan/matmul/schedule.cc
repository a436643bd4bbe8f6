#include "compiler/plan/matmul/schedule.h"

#include <algorithm>
#include <bit>

#include "compiler/plan/matmul/weight_panels.h"

namespace fusec {

namespace schedule {

namespace {

std::string Number(int64_t n) { return std::to_string(n); }

std::string Extents(const ResultTile& tile) {
  return Number(tile.rows) + "x" + Number(tile.columns);
}
std::string ExtentsInWords(const ResultTile& tile) {
  return "tile of " + Number(tile.rows) + " x " + Number(tile.columns);
}

// The bytes of a tile's sums in TileShape and WarpgroupShape, whose rows are padded by 8 elements.
int SumBytes(const ResultTile& tile) {
  return tile.split_k.warps * tile.rows * (tile.columns + 8) * static_cast<int>(sizeof(float));
}

bool AreExtents(std::initializer_list<int> extents) {
  constexpr int kMost = 1024;
  return std::all_of(extents.begin(), extents.end(),
                     [](int extent) { return extent >= 1 && extent <= kMost; });
}

// The bytes of a row of the left operand that a warpgroup tile reads: one byte for each fp8 code.
int64_t LeftRowBytes(const MatMulPlan& matmul, Arithmetic arithmetic) {
  return IsFloat8(arithmetic) ? *matmul.k.AsConstant() : RowBytes(matmul);
}

// Tiles with other extents would cause a division by zero or would not compile.
constexpr const char* kNoSuchTile =
    "a tile has extents of 1 to 1024, a warpgroup tile a multiple of 64 rows";

}  // namespace

std::string Library::Suffix() const {
  return algorithm.empty() ? "" : "_algorithm_" + Number(place);
}

std::string Library::Words() const {
  return algorithm.empty() ? "" : "library, number " + Number(place) + " of its algorithms";
}

bool Library::Fits(const MatMulPlan& matmul, const PlanOptions&) const {
  return matmul.made == nullptr;
}

std::string Rows::Suffix() const {
  return (in_groups ? "_rows_by_" : "_rows_") + Number(most_rows);
}

std::string Rows::Words() const {
  if (tensor_cores)
    return Number(most_rows) + " rows at once on tensor cores, " + Number(split_k.warps) +
           " warps per 16 columns";
  return (in_groups ? "groups of " + Number(most_rows) + " rows, "
                    : Number(most_rows) + " rows at once, ") +
         Number(split_k.warps) + " warps per column";
}

std::string Rows::Problem() const {
  const bool fits = most_rows % kTileRows == 0 && most_rows <= kMostRows && !in_groups &&
                    most_rows * split_k.warps <= kMostSums;
  if (tensor_cores && !fits) return "tensor cores multiply 8 to 64 rows, a multiple of 8";
  return AreExtents({most_rows, split_k.warps}) ? "" : "rows and warps must be 1 to 1024";
}

bool Rows::Fits(const MatMulPlan& matmul, const PlanOptions& options) const {
  if (options.target == TargetKind::kCpu) return TakesColumns(matmul);
  return HasTensorCores(options) && TakesOwnKernel(matmul) &&
         (!tensor_cores || TakesTensorCores(matmul));
}

bool Rows::TakesTensorCores(const MatMulPlan& matmul) {
  const bool is_half = matmul.dtype == Dtype::kF16 || matmul.dtype == Dtype::kBF16;
  return is_half && matmul.made == nullptr && matmul.batch.IsConstant(1) &&
         TakesOwnKernel(matmul) && *matmul.k.AsConstant() % kLeastPack == 0;
}

bool Rows::TakesColumns(const MatMulPlan& matmul) {
  return matmul.made_right != nullptr && matmul.made == nullptr && TakesOwnKernel(matmul);
}

std::string Tile::Suffix() const { return "_tile_" + Extents(*this); }

std::string Tile::Words() const {
  return ExtentsInWords(*this) + ", " + Number(row_warps) + " x " + Number(column_warps) + " x " +
         Number(split_k.warps) + " warps, " + Number(stages) + " stages of " + Number(chunk_bytes) +
         " bytes";
}

// The size of TileShape::Memory.
int Tile::SharedBytes(Arithmetic) const {
  constexpr int kPaddingBytes = 16;
  return std::max(stages * (rows + columns) * (chunk_bytes + kPaddingBytes), SumBytes(*this));
}

std::string Tile::Problem() const {
  return AreExtents({rows, columns, chunk_bytes, row_warps, column_warps, split_k.warps, stages})
             ? ""
             : kNoSuchTile;
}

bool Tile::Fits(const MatMulPlan& matmul, const PlanOptions& options) const {
  return HasTensorCores(options) && TakesOwnKernel(matmul) &&
         SharedBytes(ArithmeticOf(matmul, options)) <= options.gpu->block_shared_bytes;
}

std::string Warpgroup::Suffix() const {
  return "_warpgroup_" + Extents(*this) +
         (split_k.blocks > 1 ? "_cluster_" + Number(split_k.blocks) : "");
}

std::string Warpgroup::Words() const {
  return ExtentsInWords(*this) + ", " + Number(groups()) + " warpgroups, " + Number(stages) +
         " stages" +
         (split_k.blocks > 1 ? ", clusters of " + Number(split_k.blocks) + " blocks" : "");
}

// The size of WarpgroupShape::Memory.
int Warpgroup::SharedBytes(Arithmetic arithmetic) const {
  constexpr int kAlignment = 1024;  // of panels
  const int most = std::max(stages * StageBytes(arithmetic), SumBytes(*this));
  const bool has_units = arithmetic == Arithmetic::kSplit || IsFloat8(arithmetic);
  const int barriers = 2 * stages * static_cast<int>(sizeof(uint64_t)),
            units = (has_units ? columns : 1) * static_cast<int>(sizeof(float));
  return static_cast<int>(CeilDiv(most, kAlignment) + CeilDiv(barriers + units, kAlignment)) *
         kAlignment;
}

// A panel holds halves: of split floats it has 64 numbers of a row, which take 256 bytes in the
// left operand.
int Warpgroup::ChunkBytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kSplit ? 2 * kPanelBytes : kPanelBytes;
}

int64_t Warpgroup::Chunks(const MatMulPlan& matmul, Arithmetic arithmetic) {
  return CeilDiv(LeftRowBytes(matmul, arithmetic), ChunkBytes(arithmetic));
}

// Split floats have two panels per chunk, for `high` and `low`.
int Warpgroup::StageBytes(Arithmetic arithmetic) const {
  const int parts = arithmetic == Arithmetic::kSplit ? 2 : 1;
  return rows * ChunkBytes(arithmetic) + columns * parts * kPanelBytes;
}

bool Warpgroup::HasNeighbour(Arithmetic arithmetic, bool makes_operand) const {
  if (makes_operand) return false;
  if (arithmetic == Arithmetic::kSplit) return rows == kGroupRows && columns == kGroupRows;
  if (arithmetic == Arithmetic::kFloat8 && rows != kGroupRows) return false;
  return 2 * SharedBytes(arithmetic) <= kMostSharedBytes;
}

std::string Warpgroup::Problem() const {
  if (!AreExtents({rows, columns, stages}) || rows % kGroupRows != 0) return kNoSuchTile;
  const int blocks = split_k.blocks;
  const bool is_cluster = blocks >= 1 && blocks <= kMostClusterBlocks &&
                          std::has_single_bit(static_cast<unsigned>(blocks));
  return is_cluster ? "" : "a cluster has 1, 2, 4 or 8 blocks";
}

bool Warpgroup::Takes(const MatMulPlan& matmul, const PlanOptions& options) {
  if (options.target != TargetKind::kGpu || !options.gpu->has.warpgroup_products ||
      !TakesOwnKernel(matmul) || !IsConstant(matmul.b.value))
    return false;
  const Arithmetic arithmetic = WarpgroupArithmeticOf(matmul, options);
  if (IsFloat8(arithmetic) && !matmul.batch.IsConstant(1)) return false;
  if (LeftRowBytes(matmul, arithmetic) % 4 != 0) return false;
  const int64_t elements = PanelElements(*matmul.n.AsConstant(), *matmul.k.AsConstant(),
                                         matmul.dtype, PanelLayout(arithmetic));
  return elements * *matmul.batch.AsConstant() <= INT32_MAX;
}

bool Warpgroup::Fits(const MatMulPlan& matmul, const PlanOptions& options) const {
  return Takes(matmul, options) && (split_k.blocks == 1 || options.gpu->has.clusters) &&
         SharedBytes(WarpgroupArithmeticOf(matmul, options)) <= options.gpu->block_shared_bytes;
}

}  // namespace schedule

std::string SuffixOf(const MatMulSchedule& schedule) {
  return std::visit([](const auto& way) { return way.Suffix(); }, schedule);
}

std::string WordsOf(const MatMulSchedule& schedule) {
  return std::visit([](const auto& way) { return way.Words(); }, schedule);
}

int64_t MostRowsOf(const MatMulSchedule& schedule) {
  return std::visit([](const auto& way) { return way.MostRows(); }, schedule);
}

int BlockSizeOf(const MatMulSchedule& schedule) {
  return std::visit([](const auto& way) { return way.BlockSize(); }, schedule);
}

int SharedBytesOf(const MatMulSchedule& schedule, Arithmetic arithmetic) {
  return std::visit([&](const auto& way) { return way.SharedBytes(arithmetic); }, schedule);
}

bool Fits(const MatMulSchedule& schedule, const MatMulPlan& matmul, const PlanOptions& options) {
  return std::visit([&](const auto& way) { return way.Fits(matmul, options); }, schedule);
}

bool TakesOwnKernel(const MatMulPlan& matmul) {
  constexpr int64_t kMostTerms = INT32_MAX / 8;
  const int64_t matrices = matmul.batch.AsConstant().value_or(0);
  const int64_t terms = matmul.k.AsConstant().value_or(0);
  return matmul.dtype != Dtype::kF64 && !matmul.a.transposed && matmul.b.transposed &&
         matrices > 0 && matrices <= kMostMatrices && matmul.n.AsConstant().value_or(0) > 0 &&
         terms > 0 && terms < kMostTerms;
}

Arithmetic ArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options) {
  return ArithmeticOf(matmul.dtype, options.matmul_precision);
}

Arithmetic WarpgroupArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options) {
  // Tensor cores keep 14 bits of the sums of E4M3 products. Over 32 additions, that loses less than
  // a tenth of what the rounding of the operands to E4M3 has lost.
  constexpr int64_t kShortSum = 1024;
  if (matmul.codes == nullptr || matmul.factors == nullptr) return ArithmeticOf(matmul, options);
  return *matmul.k.AsConstant() <= kShortSum ? Arithmetic::kShortFloat8 : Arithmetic::kFloat8;
}

int64_t RowBytes(const MatMulPlan& matmul) {
  return *matmul.k.AsConstant() * DtypeBytes(matmul.dtype);
}

}  // namespace fusec
