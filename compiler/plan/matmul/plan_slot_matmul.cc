#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/region/slot_product.h"

namespace fusec {

namespace {

constexpr int kWarps = 16;
constexpr int kMostDepthWarps = 8;
constexpr int64_t kPairColumns = 16;
constexpr int64_t kGroupRows = 16;
constexpr int64_t kLanes = 4;  // 16 bytes of sums

int64_t RoundUp(int64_t number, int64_t step) { return (number + step - 1) / step * step; }

// The tile of a block or a cluster, and how it is divided among the warps: first by columns, then
// by the depth of long sums, then by groups of rows.
struct SlotTile {
  int64_t rows = 0, columns = 0;
  int cluster_blocks = 1, group_warps = 1, column_warps = 1, depth_warps = 1;

  SlotTile(int64_t tile_rows, int64_t all_columns, int64_t all_terms, int64_t pack, int blocks)
      : rows(tile_rows), cluster_blocks(blocks) {
    const int64_t depth = CeilDiv(all_terms, blocks);
    columns = std::min(RoundUp(all_columns, kPairColumns), kMostColumnsOfSlots);
    // A warp has at least two pairs of pieces if the tile has that many.
    while (column_warps < 4 && columns % (4 * kPairColumns * column_warps) == 0) column_warps *= 2;
    // With many rows, groups are left to divide among the warps.
    const int most = rows > 2 * kGroupRows ? kMostDepthWarps / 2 : kMostDepthWarps;
    while (depth_warps < most && depth_warps * column_warps < kWarps &&
           depth_warps * 4 * pack < depth)
      depth_warps *= 2;
    group_warps = kWarps / (column_warps * depth_warps);
  }
  int64_t SharedBytes() const {
    const int64_t lists = rows * 4 + 4 + rows * 4 * 2 + rows * 16 * 4;
    return RoundUp(depth_warps * rows * (columns + 8) * 4 + lists, 16);
  }
};

class SlotPlanner : ProductPlanner {
 public:
  SlotPlanner(const Node& region, const MatMulPlan& matmul, const PlanOptions& options,
              KernelBuilder& builder)
      : ProductPlanner(region, matmul, builder),
        precision_(options.matmul_precision),
        tile_(std::max<int64_t>(builder.shape().rows, kFewRowsOfSlots), columns(), depth(),
              PackElements(),
              builder.shape().cluster_blocks > 0 ? ClusterOfSlots(*product_, options) : 1) {
    cluster_blocks_ = tile_.cluster_blocks;
  }

  KernelPlan Plan() {
    NameOperands(/*reads_weights=*/true, /*takes_sizes=*/false);
    for (const char* file : {"tensor_core.cuh", "vector.cuh", "matmul_rows.cuh",
                             "block_cluster.cuh", "slot_matmul.cuh"})
      builder_.Use(file);
    if (matmul_.made) builder_.Use("made_operand.cuh");
    KernelPlan& plan = builder_.plan();
    IndexWriter& names = builder_.expressions();
    const int64_t column_tiles = CeilDiv(columns(), tile_.columns);
    plan.block_size = 32 * kWarps;
    const Expr tiles_in_all = CeilDiv(matmul_.m, tile_.rows, builder_.ranges()) * column_tiles;
    LaunchTiles(tiles_in_all, tile_.rows, tile_.columns);
    plan.shared_bytes = static_cast<int>(tile_.SharedBytes());
    const CExpr rows = names.Constant("tile_rows", tile_.rows, "of a block's tile");
    const CExpr width = names.Constant("tile_columns", tile_.columns, "of a block's tile");
    const CExpr group_warps =
        names.Constant("group_warps", tile_.group_warps, "warps that divide the groups of rows");
    const CExpr column_warps =
        names.Constant("column_warps", tile_.column_warps, "warps along the columns");
    const CExpr depth_warps =
        names.Constant("depth_warps", tile_.depth_warps, "warps that split each sum");
    std::vector<CExpr> shape = {TensorCoreArithmetic(dtype(), precision_),
                                rows,
                                width,
                                group_warps,
                                column_warps,
                                depth_warps};
    if (IsShared()) shape.push_back(ClusterBlocks());
    builder_.Append(Statement::Using("Shape", Template("SlotShape", std::move(shape))));
    DeclareSharedMemory(builder_);
    const CExpr tiles = names.Constant("column_tiles", column_tiles, "tiles along the columns");
    const CExpr tile = NumberOfTile(tiles_in_all);
    Let("first_row", tile / tiles * rows, 0, matmul_.m - 1);
    Let("first_column", tile % tiles * width, 0, matmul_.n - 1);
    builder_.Blank();
    const CExpr slot = ReadSlot(*product_, rows);
    builder_.Blank();
    left_ = LeftFrom("first_row");
    pack_ = names.Constant("pack", PackElements(), "elements of one load");
    builder_.Comment("memory.sums = " + a_.word() + " x the matrices of " + b_.word() +
                     " that the slots select");
    builder_.AppendCall(Call(Template("MultiplyBySlots", {"Shape", pack_, IsTransposed()}),
                             {left_, slot, b_, "first_column", columns_, depth_, "memory"}));
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    StoreTile(rows);
    EndTile();
    return Finish(0);
  }

 private:
  // The number of consecutive elements of a row that a thread loads at once.
  int64_t PackElements() const { return dtype() != Dtype::kF32 && depth() % 32 == 0 ? 8 : 4; }
  CExpr IsTransposed() const { return matmul_.b.transposed ? "true" : "false"; }

  // Stores the tile. Each block of a cluster stores a part of the rows.
  void StoreTile(const CExpr& rows) {
    const CExpr share = ShareOfRows(tile_.rows, rows);
    const CExpr lanes =
        builder_.expressions().Constant("lanes", kLanes, "elements that a thread computes at once");
    StoreVectors({tile_.rows, tile_.columns, share, 32 * kWarps, kLanes,
                  [&](const CExpr& row, const CExpr& tile_column, const CExpr&) {
                    return Call(
                        Template("SlotSums", {"Shape", pack_, lanes, IsTransposed()}),
                        {"memory", row, tile_column, left_, b_, "first_column", columns_, depth_});
                  }});
  }

  const std::string& precision_;
  const SlotTile tile_;
  CExpr left_, pack_;
};

// The product in the form of other products: rows times one matrix of the bank.
MatMulPlan PlanOf(const Node& region) {
  const Node& product = SlotProductOf(region);
  MatMulPlan plan;
  const Value* x = product.operand(0);
  plan.a.value = OperandOf(region, x);
  if (!plan.a.value) plan.made = x;
  plan.b.value = OperandOf(region, product.operand(kBankOfProduct));
  plan.b.transposed = product.Int("transpose_b") != 0;
  plan.result = region.result();
  plan.dtype = product.result()->type.dtype;
  const Shape& shape = product.result()->type.shape;
  plan.m = Product(Shape(shape.begin(), shape.end() - 1));
  plan.n = shape.back();
  plan.k = x->type.shape.back();
  plan.batch = 1;
  plan.a.batch_stride = plan.b.batch_stride = 0;
  return plan;
}

}  // namespace

KernelPlan PlanSlotMatMul(const Node& region, const PlanOptions& options, KernelBuilder& builder) {
  const MatMulPlan plan = PlanOf(region);
  return SlotPlanner(region, plan, options, builder).Plan();
}

int ClusterOfSlots(const Node& slot_matmul, const PlanOptions& options) {
  constexpr int64_t kMostColumns = 64, kLeastTerms = 64;  // per tile; per block
  constexpr int kMostBlocks = 8;
  const int64_t columns = slot_matmul.result()->type.shape.back().AsConstant().value_or(0);
  const int64_t terms = slot_matmul.operand(0)->type.shape.back().AsConstant().value_or(0);
  if (options.target != TargetKind::kGpu || !options.gpu->has.clusters || columns > kMostColumns)
    return 1;
  int blocks = 1;
  while (blocks < kMostBlocks && 2 * blocks * kLeastTerms <= terms) blocks *= 2;
  return blocks;
}

}  // namespace fusec
