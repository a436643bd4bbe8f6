#include <algorithm>

#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/drawing.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/block_stages.h"

namespace fusec {

namespace {

constexpr int64_t kColumns = schedule::Rows::kTileColumns;  // of a block

// The schedule Rows on tensor cores.
class FewRowsPlanner : ProductPlanner {
 public:
  FewRowsPlanner(const Node& region, const MatMulPlan& matmul, const schedule::Rows& kernel,
                 const PlanOptions& options, KernelBuilder& builder)
      : ProductPlanner(region, matmul, builder),
        kernel_(kernel),
        arithmetic_(TensorCoreArithmetic(matmul.dtype, options.matmul_precision)) {
    makes_weights_ = matmul.made_right != nullptr;
  }

  KernelPlan Plan() {
    NameOperands(/*reads_weights=*/!makes_weights_, /*takes_sizes=*/false);
    Write();
    return Finish(0);
  }

 private:
  void Write() {
    for (const char* file :
         {"vector.cuh", "tensor_core.cuh", "matmul_rows.cuh", "matmul_few_rows.cuh"})
      builder_.Use(file);
    IndexWriter& names = builder_.expressions();
    KernelPlan& plan = builder_.plan();
    const int warps = kernel_.split_k.warps;
    plan.block_size = kernel_.BlockSize();
    plan.has_small_blocks = true;
    // An empty batch has no blocks.
    plan.blocks = Expr(CeilDiv(columns(), kColumns)) * Min(matmul_.m, 1, builder_.ranges());
    plan.launch_in_words =
        (warps == 1 ? "one warp" : "a block of " + std::to_string(warps) + " warps") +
        std::string(" per 16 columns");
    plan.drawing = DrawFewRows({warps, Pack()});
    const CExpr block_columns = names.Constant("block_columns", kColumns, "columns of a block");
    const CExpr most = names.Constant("most_rows", kernel_.most_rows, "rows of the result");
    const CExpr warps_name = names.Constant("depth_warps", warps, "warps that split each sum");
    builder_.Append(
        Statement::Declare(Template("__shared__ ColumnSums", {most, warps_name}), "sums"));
    Let("first_column", BlockNumber() * block_columns, 0, matmul_.n - 1);
    const CExpr pack = names.Constant("pack", Pack(), "elements of one load");
    const CExpr weights = Weights(pack);
    const CExpr first = ReadFirst(weights, pack, warps_name);
    builder_.Blank();
    builder_.AppendCall(Call(Template("MultiplyColumns", {arithmetic_}),
                             {a_, RowCount(), weights, first, depth_, "sums"}));
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    StoreElements(block_columns, most);
  }

  int64_t Pack() const {
    const bool is_long = makes_weights_ && kernel_.most_rows == schedule::Rows::kTileRows;
    return Aligned(is_long ? schedule::Rows::kMostPackedPack : schedule::Rows::kMostPack);
  }

  // The weights of the block's columns, as a local.
  CExpr Weights(const CExpr& pack) {
    if (makes_weights_ && dtype() == Dtype::kF16 && Pack() % 8 == 0) {
      const CExpr words = RightInWords("first_column", Pack(), pack);
      is_in_words_ = !words.empty();
      if (is_in_words_) return words;
    }
    if (makes_weights_) return RightFrom("column", "first_column", Pack(), pack);
    const std::string weights = builder_.Unique("weights");
    builder_.Append(Statement::Let(
        "auto", weights,
        Call("ColumnsFrom", {b_ + "first_column" * depth_, depth_, columns_ - "first_column"})));
    return weights;
  }

  CExpr ReadFirst(const CExpr& weights, const CExpr& pack, const CExpr& warps) {
    const int64_t terms_of_step = 4 * Pack() * kernel_.split_k.warps;
    const CExpr steps = builder_.expressions().Constant(
        "first_steps", std::min(CeilDiv(depth(), terms_of_step), schedule::Rows::kMostFirstSteps),
        "steps whose weights are prefetched");
    builder_.Blank();
    builder_.Comment("Prefetch weights before the other operand is needed.");
    const CExpr order = is_in_words_ ? "PairOrder::kFourApart" : "PairOrder::kAdjacent";
    builder_.Append(
        Statement::Let("auto", "first_pairs",
                       Call(Template("ReadFirstPairs", {arithmetic_, order, warps, pack, steps}),
                            {weights, depth_})));
    if (makes_weights_ || IsConstant(matmul_.b.value)) builder_.Append(Statement::Await());
    return "first_pairs";
  }

  void StoreElements(const CExpr& block_columns, const CExpr& most) {
    const int64_t stored_columns = is_paired_ ? kColumns / 2 : kColumns;
    const CExpr stored =
        is_paired_ ? builder_.expressions().Constant("stored_columns", stored_columns,
                                                     "columns of the result that a block stores")
                   : block_columns;
    const Statement header =
        LoopHeader(builder_, "i", "threadIdx.x", most * stored, BlockSizeName(builder_));
    builder_.Open();
    builder_.DefineVariable("i", 0, kernel_.most_rows * stored_columns - 1);
    Let("row", "i" / stored, 0, matmul_.m - 1);
    Let("column_in_group", "i" % stored, 0, stored_columns - 1);
    const CExpr first = is_paired_ ? BlockNumber() * stored : "first_column";
    Let("column", first + "column_in_group", 0, result_columns() - 1);
    builder_.Open(/*is_branch=*/true);
    CExpr place = "column_in_group";
    if (is_paired_) {
      Let("first_of_pair", FirstOfPair(place), 0, kColumns - 1);
      place = "first_of_pair";
    }
    LetProduct(Call("sums.Total", {"row", place}));
    if (is_paired_) LetProduct(Call("sums.Total", {"row", place + InTurn()}), "second_product");
    StoreElement(Variable("row"), Variable("column"));
    CExpr inside = "row" < RowCount();
    if (columns() % kColumns != 0) inside = And(inside, "column" < ResultColumns());
    builder_.CloseIf(inside);
    builder_.CloseFor(header);
  }

  const schedule::Rows& kernel_;
  const CExpr arithmetic_;
  bool is_in_words_ = false;  // the kernel makes words of weights
};

}  // namespace

KernelPlan PlanMatMulFewRows(const Node& region, const MatMulPlan& matmul,
                             const schedule::Rows& rows, const PlanOptions& options,
                             KernelBuilder& builder) {
  return FewRowsPlanner(region, matmul, rows, options, builder).Plan();
}

}  // namespace fusec
