#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/drawing.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/matmul/weight_panels.h"
#include "compiler/region/block_stages.h"
#include "compiler/region/slot_product.h"

namespace fusec {

namespace {

constexpr int64_t kMostLanes = 4;   // 16 bytes of sums
constexpr int kSmallTileRows = 64;  // rows of one multiplying warpgroup
constexpr int64_t kTermsOfManyChunks = 256;

class TilePlanner : ProductPlanner {
 public:
  TilePlanner(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& schedule,
              const PlanOptions& options, KernelBuilder& builder, int64_t lanes = 1)
      : ProductPlanner(region, matmul, builder),
        schedule_(schedule),
        by_warps_(std::get_if<schedule::Tile>(&schedule)),
        tile_(by_warps_ != nullptr ? static_cast<const schedule::ResultTile&>(*by_warps_)
                                   : std::get<schedule::Warpgroup>(schedule)),
        options_(options),
        arithmetic_(by_warps_ != nullptr ? ArithmeticOf(matmul, options)
                                         : WarpgroupArithmeticOf(matmul, options)),
        lanes_(lanes) {
    cluster_blocks_ = tile_.split_k.blocks;
    for (const auto& node : region.body->nodes) {
      const Node* addend = SlotAddendOf(*node, *product_);
      if (addend == nullptr || !HasRoomForSlots() || matrices() > 1 ||
          !OperandOf(region, addend->operand(0)) || !OperandOf(region, addend->operand(1)))
        continue;
      slot_addend_ = addend;
      last_in_tile_ = node.get();
    }
  }

  KernelPlan Plan() {
    Write();
    return Finish(more_bytes_);
  }

  // The number of consecutive elements of the result that a thread should compute at once:
  // kMostLanes if every thread still has work and most of the loads for them are vectors as well,
  // else 1.
  int64_t BestLanes() const {
    if (is_paired_) return kPairedColumns;
    const bool all_work = tile_.rows * tile_.columns >= kMostLanes * BlockSizeOf(schedule_);
    if (!all_work || columns() % kMostLanes != 0) return 1;
    std::vector<IndexSite> sites;
    KernelBuilder builder(builder_, sites);
    TilePlanner trial(region_, matmul_, schedule_, options_, builder, kMostLanes);
    trial.Write();
    const RegionLowering::Loads& loads = trial.lowering_.loads();
    return loads.of_lanes <= loads.of_vectors ? kMostLanes : 1;
  }

 private:
  bool ByWarpgroups() const { return by_warps_ == nullptr; }
  // Whether a block has many chunks of split floats. Then sizes are parameters of the kernel, so
  // that layers of different sizes share it: these kernels take longest to compile, and they are 3
  // to 7 % faster this way. With few chunks, the loop would take registers, so that one block
  // instead of two would fit on a multiprocessor; TF32 and 16-bit kernels would be up to 4 %
  // slower.
  bool HasLongSums() const {
    return ByWarpgroups() && arithmetic_ == Arithmetic::kSplit && depth() >= kTermsOfManyChunks;
  }
  // Whether the number of tiles along the columns is a parameter, too. The division by it takes 0.1
  // us, which matters for small tiles.
  bool TakesTiles() const { return HasLongSums() && tile_.rows > kSmallTileRows; }
  // Whether a block has a thread for each row of the tile, which reads the slot of the row.
  bool HasRoomForSlots() const { return BlockSizeOf(schedule_) >= tile_.rows; }
  // The name of a size, as a parameter or as a constant.
  CExpr Size(bool is_parameter, const std::string& name, int64_t size, const std::string& comment) {
    return is_parameter ? builder_.SizeParameter(name, size, comment)
                        : builder_.expressions().Constant(name, size, comment);
  }
  const char* WhoseTile() const { return IsShared() ? "of a cluster's tile" : "of a block's tile"; }
  bool IsFloat8() const { return fusec::IsFloat8(arithmetic_); }
  // Bytes of an element of the left operand.
  int64_t LeftBytes() const { return IsFloat8() ? 1 : DtypeBytes(dtype()); }
  CExpr ArithmeticInKernel() const {
    if (arithmetic_ == Arithmetic::kShortFloat8) return "Arithmetic::kShortFloat8";
    if (IsFloat8()) return "Arithmetic::kFloat8";
    if (ByWarpgroups() && arithmetic_ == Arithmetic::kSplit) return "Arithmetic::kSplitHalf";
    return TensorCoreArithmetic(dtype(), options_.matmul_precision);
  }
  // Declares `Shape`, the type of the tile.
  void DeclareShape() {
    IndexWriter& names = builder_.expressions();
    const schedule::ResultTile& tile = tile_;
    std::vector<CExpr> shape = {ArithmeticInKernel()};
    const auto add = [&](const char* name, int64_t value, const char* comment) {
      shape.push_back(names.Constant(name, value, comment));
    };
    add("tile_rows", tile.rows, WhoseTile());
    add("tile_columns", tile.columns, WhoseTile());
    if (by_warps_ != nullptr) {
      add("chunk_bytes", by_warps_->chunk_bytes, "of a row, per stage");
      add("row_warps", by_warps_->row_warps, "warps along the rows");
      add("column_warps", by_warps_->column_warps, "warps along the columns");
      add("depth_warps", tile.split_k.warps, "warps that split each sum");
    }
    add("stages", tile.stages, "chunks in shared memory");
    if (IsShared()) shape.push_back(ClusterBlocks());
    builder_.Append(Statement::Using(
        "Shape", Template(ByWarpgroups() ? "WarpgroupShape" : "TileShape", std::move(shape))));
  }

  void Write() {
    NameOperands(!ByWarpgroups() || (dtype() == Dtype::kF32 && !IsFloat8()), HasLongSums());
    builder_.Use("async_copy.cuh");
    builder_.Use("tensor_core.cuh");
    builder_.Use("vector.cuh");
    builder_.Use("tile_memory.cuh");
    if (ByWarpgroups()) {
      builder_.Use("block_cluster.cuh");
      builder_.Use("warpgroup.cuh");
      builder_.Use("split_half.cuh");
      builder_.Use("float8.cuh");
      builder_.Use("copy_barrier.cuh");
      builder_.Use("warpgroup_registers.cuh");
      builder_.Use("warpgroup_stages.cuh");
      builder_.Use("warpgroup_units.cuh");
      // It tells the compiler how many registers a thread may have.
      const auto& tile = std::get<schedule::Warpgroup>(schedule_);
      const bool is_made = matmul_.made != nullptr;
      builder_.plan().blocks_together = tile.HasNeighbour(arithmetic_, is_made) ? 2 : 1;
    }
    if (matmul_.made) builder_.Use("made_operand.cuh");
    builder_.Use(ByWarpgroups() ? "matmul_warpgroup.cuh" : "matmul_tile.cuh");
    if (slot_addend_) {
      builder_.Use("dependent_launch.cuh");
      builder_.Use("slot_addend.cuh");
    }
    KernelPlan& plan = builder_.plan();
    IndexWriter& names = builder_.expressions();
    const schedule::ResultTile& tile = tile_;
    plan.block_size = BlockSizeOf(schedule_);
    const Expr row_tiles = CeilDiv(matmul_.m, tile.rows, builder_.ranges());
    const int64_t column_tiles = CeilDiv(columns(), tile.columns);
    const Expr tiles_in_all = row_tiles * column_tiles * matrices();
    LaunchTiles(tiles_in_all, tile.rows, tile.columns);
    const CExpr rows = names.Constant("tile_rows", tile.rows, WhoseTile());
    const CExpr width = names.Constant("tile_columns", tile.columns, WhoseTile());
    DeclareShape();
    plan.shared_bytes = SharedBytesOf(schedule_, arithmetic_);
    plan.drawing = Draw();
    DeclareSharedMemory(builder_);
    const CExpr tiles = Size(TakesTiles(), "column_tiles", column_tiles, "tiles along the columns");
    const CExpr number = NumberOfTile(tiles_in_all);
    const CExpr neighbours = ChooseMatrix(number, tiles);
    Let("first_row", number / neighbours * rows, 0, matmul_.m - 1);
    Let("first_column", number % tiles * width, 0, matmul_.n - 1);
    builder_.Blank();
    Multiply(rows, width);
    if (slot_addend_) builder_.Append(Statement::AwaitPrevious());
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    const CExpr share = ShareOfRows(tile.rows, rows);
    if (lanes_ == 1) {
      StoreElements(share, width);
    } else {
      const CExpr lanes =
          names.Constant("lanes", lanes_, "elements that a thread computes at once");
      StoreVectors({tile.rows, tile.columns, share, BlockSizeOf(schedule_), lanes_,
                    [&](const CExpr& row, const CExpr& tile_column, const CExpr& column) {
                      const CExpr sums =
                          Call(Template(IsShared() ? "ClusterSums" : "TileSums", {"Shape", lanes}),
                               {"memory", row, tile_column});
                      return Checked(sums, column);
                    }});
    }
    EndTile();
  }

  Drawing Draw() const {
    DrawnProduct drawn;
    drawn.arithmetic = arithmetic_;
    drawn.is_made = matmul_.made != nullptr;
    if (!HasLongSums()) drawn.row_bytes = depth() * LeftBytes();
    drawn.shared_bytes = SharedBytesOf(schedule_, arithmetic_);
    return by_warps_ ? DrawTile(*by_warps_, drawn)
                     : DrawTile(std::get<schedule::Warpgroup>(schedule_), drawn);
  }

  void Multiply(const CExpr& rows, const CExpr& width) {
    const CExpr m = RowCount();
    const std::string b = ByWarpgroups() ? ModelName(matmul_.b.value->name) : b_.word();
    const CExpr right = ByWarpgroups() ? PanelsOfTile() : b_ + "first_column" * depth_;
    const CExpr columns = MinOf(width, columns_ - "first_column");
    const CExpr row_bytes =
        IsFloat8() ? depth_ : depth_ * Call("sizeof", {MemoryTypeName(dtype())});
    if (ByWarpgroups()) {
      builder_.Comment("Prefetch the weights before the other operand is needed.");
      builder_.AppendCall(
          Call(Template("StartPanels", {"Shape"}), {right, columns, row_bytes, "memory"}));
      if (slot_addend_) {
        builder_.Append(Statement::Declare(Template("__shared__ NamedSlots", {rows, SlotCount()}),
                                           "named_slots"));
        builder_.AppendCall(Call("ClearSlots", {"named_slots"}));
      }
      builder_.Append(Statement::Await());
      builder_.Blank();
    }
    const CExpr left = LeftFrom("first_row");
    const CExpr rows_here = MinOf(rows, m - "first_row");
    std::vector<CExpr> more;
    if (slot_addend_) more = {DeclareSlotAddend(rows)};
    if (IsFloat8()) {
      const CExpr factors = builder_.Buffer(matmul_.factors) + "first_row";
      more = {Call("NoAddend", {}), Call("FactorsOfRows", {factors, rows_here})};
    }
    builder_.Comment("memory.sums = " + a_.word() + " x " + b + ", transposed" +
                     (slot_addend_ ? ", plus the addend of the adapters" : ""));
    const int64_t copy = Aligned(16 / LeftBytes()) * LeftBytes();
    const CExpr copy_name = builder_.expressions().Constant("copy_bytes", copy, "bytes per copy");
    std::vector<CExpr> arguments = {left, rows_here, right, columns, row_bytes, "memory"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    builder_.AppendCall(Call(Template(ByWarpgroups() ? "MultiplyTileByWarpgroups" : "MultiplyTile",
                                      {"Shape", copy_name}),
                             std::move(arguments)));
  }

  // The name of the number of slots.
  CExpr SlotCount() {
    const Value* bank = OperandOf(region_, slot_addend_->operand(kBankOfProduct));
    return builder_.Write(bank->type.shape.front(), Only({0, ModelName(bank->name) + "_slots",
                                                          "slots of adapters: first axis of \"" +
                                                              NameOf(builder_, bank) + "\""}));
  }

  // Declares the local `adapters`, which the slots of the tile's rows add to the sums.
  CExpr DeclareSlotAddend(const CExpr& rows) {
    builder_.Append(Statement::Declare("__shared__ int", CExpr("slots")[rows]));
    const CExpr slot = ReadSlot(*slot_addend_, rows);
    builder_.Open(/*is_branch=*/true);
    builder_.Assign(CExpr("slots")["threadIdx.x"], slot);
    builder_.CloseIf("threadIdx.x" < rows);
    if (ByWarpgroups()) builder_.AppendCall(Call("NameSlot", {"named_slots", slot}));
    const CExpr down = builder_.Buffer(OperandOf(region_, slot_addend_->operand(0)));
    const Value* bank = OperandOf(region_, slot_addend_->operand(kBankOfProduct));
    const CExpr rank = builder_.Write(
        bank->type.shape.back(),
        Only({0, ModelName(bank->name) + "_rank",
              "terms of an adapter: last axis of \"" + NameOf(builder_, bank) + "\""}));
    const CExpr left = down + "first_row" * rank;
    std::vector<CExpr> arguments = {left,           "slots",  builder_.Buffer(bank),
                                    "first_column", columns_, rank};
    if (ByWarpgroups()) arguments.insert(arguments.begin() + 2, "named_slots");
    builder_.Append(Statement::Let(
        "auto", "adapters",
        Call(Template(ByWarpgroups() ? "ChunksOfSlots" : "AddendOfSlots", {ArithmeticInKernel()}),
             std::move(arguments))));
    return "adapters";
  }

  // Points to the panels of the tile's columns.
  CExpr PanelsOfTile() {
    const WeightLayout layout = PanelLayout(arithmetic_);
    CExpr panels = builder_.InLayout(matmul_.b.value, layout);
    const int64_t elements = PanelElements(columns(), depth(), dtype(), layout);
    const bool has_several = !matmul_.b.batch_stride.IsConstant(0);
    if (has_several)
      panels = OfMatrix(elements, panels,
                        {{elements, "panel_elements", "elements per matrix in panels"}});
    more_bytes_ =
        (elements - columns() * depth()) * (has_several ? matrices() : 1) * DtypeBytes(dtype());
    return panels + "first_column" * Size(HasLongSums(), "panel_depth",
                                          PanelDepth(depth(), dtype(), layout),
                                          "elements per column in panels");
  }

  void StoreElements(const CExpr& rows, const CExpr& width) {
    const schedule::ResultTile& tile = tile_;
    const Statement header =
        LoopHeader(builder_, "i", "threadIdx.x", rows * width, "Shape::kThreads");
    builder_.Open();
    builder_.DefineVariable("i", 0, tile.rows * tile.columns - 1);
    Let("tile_row", FromTileRow("i" / width), 0, tile.rows - 1);
    Let("tile_column", "i" % width, 0, tile.columns - 1);
    Let("row", "first_row + tile_row", 0, matmul_.m - 1);
    Let("column", "first_column + tile_column", 0, matmul_.n - 1);
    builder_.Open(/*is_branch=*/true);
    LetProduct(Checked(IsShared() ? "ClusterSums<Shape, 1>(memory, tile_row, tile_column).at[0]"
                                  : "TileSum<Shape>(memory, tile_row, tile_column)",
                       "column"));
    StoreElement(Variable("row"), Variable("column"));
    builder_.CloseIf(And("row" < RowCount(), "column" < columns_));
    builder_.CloseFor(header);
  }

  // `sums` of the row and of the columns from `column` on, computed again where they are not
  // finite.
  CExpr Checked(const CExpr& sums, const CExpr& column) {
    if (dtype() != Dtype::kF32 || IsFloat8()) return sums;
    const CExpr left = matmul_.made ? Call("RowOf", {a_, "tile_row"}) : a_ + "row" * depth_;
    return Call("PlainUnlessFinite", {sums, left, b_ + column * depth_, depth_});
  }

  const MatMulSchedule& schedule_;
  const schedule::Tile* const by_warps_;  // the tile of schedule_; null for a warpgroup tile
  const schedule::ResultTile& tile_;      // the tile of schedule_
  const PlanOptions& options_;
  const Arithmetic arithmetic_;
  const int64_t lanes_;                // elements that a thread stores at once
  const Node* slot_addend_ = nullptr;  // the fused adapters (slot_product.h), or null
  int64_t more_bytes_ = 0;             // the padding of the panels that are read
};

// The product that a warpgroup tile computes if the left operand is decoded from fp8 codes: it
// reads the codes themselves.
MatMulPlan WithCodes(const MatMulPlan& matmul) {
  MatMulPlan plan = matmul;
  plan.a = {matmul.codes, 0, false};
  plan.made = nullptr;
  return plan;
}

}  // namespace

KernelPlan PlanMatMulTile(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& tile,
                          const PlanOptions& options, KernelBuilder& builder) {
  const bool reads_codes = std::holds_alternative<schedule::Warpgroup>(tile) &&
                           fusec::IsFloat8(WarpgroupArithmeticOf(matmul, options));
  const MatMulPlan with_codes = reads_codes ? WithCodes(matmul) : matmul;
  const int64_t lanes = TilePlanner(region, with_codes, tile, options, builder).BestLanes();
  return TilePlanner(region, with_codes, tile, options, builder, lanes).Plan();
}

}  // namespace fusec
