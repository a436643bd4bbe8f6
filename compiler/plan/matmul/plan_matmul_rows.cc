#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/drawing.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/region/block_stages.h"

namespace fusec {

namespace {

constexpr int kWarpSize = 32;
constexpr int64_t kMostFirstPacks = 8;     // of 16 bytes each, in registers of a thread
constexpr int64_t kMostFirstWeights = 64;  // the same for computed weights, of 4 bytes each

class RowsPlanner : ProductPlanner {
 public:
  RowsPlanner(const Node& region, const MatMulPlan& matmul, const schedule::Rows& kernel,
              KernelBuilder& builder)
      : ProductPlanner(region, matmul, builder), kernel_(kernel) {}

  KernelPlan Plan() {
    makes_weights_ = matmul_.made_right != nullptr;
    NameOperands(/*reads_weights=*/!makes_weights_, /*takes_sizes=*/false);
    Write();
    return Finish(0);
  }

 private:
  void Write() {
    builder_.Use("vector.cuh");
    if (matmul_.made) builder_.Use("made_operand.cuh");
    builder_.Use("matmul_rows.cuh");
    KernelPlan& plan = builder_.plan();
    IndexWriter& names = builder_.expressions();
    const int per_column = kernel_.split_k.warps;
    const int wanted = builder_.shape().block_size;
    plan.block_size = std::max(wanted > 0 ? wanted : kernel_.BlockSize(), per_column * kWarpSize);
    const int block_columns = plan.block_size / kWarpSize / per_column;
    plan.has_small_blocks = true;
    // An empty batch has no blocks: a block would read a first row that does not exist.
    const Expr groups = kernel_.in_groups ? CeilDiv(matmul_.m, kernel_.most_rows, builder_.ranges())
                                          : Min(matmul_.m, 1, builder_.ranges());
    plan.blocks = CeilDiv(result_columns(), block_columns, builder_.ranges()) * groups * matrices();
    plan.launch_in_words =
        (per_column == 1 ? "one warp" : std::to_string(per_column) + " warps") + " per column" +
        (kernel_.in_groups ? " of " + std::to_string(kernel_.most_rows) + " rows" : "");
    plan.drawing =
        DrawColumns({block_columns, per_column, kernel_.most_rows, PackElements(), is_paired_});
    const CExpr most = names.Constant("most_rows", kernel_.most_rows,
                                      kernel_.in_groups ? "rows of a group" : "rows of the result");
    const CExpr size = names.Constant("warp_size", kWarpSize, "threads");
    const CExpr threads = per_column == 1 ? size : WarpsPerColumn() * size;
    if (per_column > 1) {
      const CExpr sums = BlockSizeName(builder_) / size * most;
      builder_.Append(Statement::Declare("__shared__ float", CExpr("scratch")[sums]));
      if (is_paired_)
        builder_.Append(Statement::Declare("__shared__ float", CExpr("second_scratch")[sums]));
    }
    const CExpr neighbours = ChooseGroup(most);
    const CExpr number = neighbours.empty() ? BlockNumber() : BlockNumber() / neighbours;
    Let("column", number * (BlockSizeName(builder_) / threads) + "threadIdx.x" / threads, 0,
        result_columns() - 1);
    const bool fits = result_columns() % block_columns == 0;
    const std::vector<Column> columns = ReadWeights(fits);
    builder_.Blank();
    const CExpr a = LeftFrom(kernel_.in_groups ? "first_row" : CExpr());
    builder_.Comment(kernel_.in_groups
                         ? "Thread r of a column's threads gets the sum of row r of the group."
                         : "Thread r of a column's threads gets the sum of row r.");
    const CExpr rows = kernel_.most_rows == 1 ? 1 : RowCount();
    const CExpr left = kernel_.in_groups ? rows - "first_row" : rows;
    const auto let_product = [&](const Column& column, const char* product, const char* scratch) {
      LetProduct(
          Call(Template("MultiplyRows", {most}), {a, left, column.weights, column.first_weights,
                                                  depth_, per_column > 1 ? scratch : "nullptr"}),
          product);
    };
    let_product(columns[0], "product", "scratch");
    if (is_paired_) let_product(columns[1], "second_product", "second_scratch");
    const CExpr row = "threadIdx.x" % threads;
    if (kernel_.in_groups)
      StoreRows("first_row" + row, row < most, fits);
    else
      StoreRows(row, {}, fits);
  }

  // Writes which product and which group of rows a block computes, if there are several. Returns
  // how many consecutive blocks compute the same columns; empty for one.
  CExpr ChooseGroup(const CExpr& most) {
    if (!kernel_.in_groups) return ChooseMatrix(BlockNumber(), {});
    builder_.Comment("Consecutive blocks multiply other rows by the same weights.");
    Let("row_groups", (RowCount() + most - 1) / most, 1, matmul_.m);
    Let("first_row", BlockNumber() % "row_groups" * most, 0, matmul_.m - 1);
    return ChooseMatrix(BlockNumber(), "row_groups");
  }

  // Elements of one load. Computed weights take registers as floats, and so do the rows.
  int64_t PackElements() const {
    if (makes_weights_) return Aligned(kernel_.most_rows == 1 ? 16 : 8);
    return Aligned(16 / DtypeBytes(dtype()));
  }
  // The most packs of a column that a thread holds before the rows are available.
  int64_t MostFirstPacks() const {
    if (makes_weights_) return kMostFirstWeights / PackElements();
    return is_paired_ ? kMostFirstPacks / 2 : kMostFirstPacks;
  }

  CExpr WarpsPerColumn() {
    return builder_.expressions().Constant("warps_per_column", kernel_.split_k.warps,
                                           "warps that split each sum");
  }

  // The weights of a column, and those of them that a thread has loaded.
  struct Column {
    CExpr weights, first_weights;
  };

  // Writes the loads of those weights of the columns behind the result's `column` that fit in
  // registers, and then the wait for earlier kernels. If `fits`, every column of the block exists.
  std::vector<Column> ReadWeights(bool fits) {
    IndexWriter& names = builder_.expressions();
    const int64_t pack = PackElements();
    const CExpr pack_name = names.Constant("pack", pack, "elements of one load");
    const int64_t terms = pack * kWarpSize * kernel_.split_k.warps;
    const CExpr packs =
        names.Constant("first_packs", std::min(CeilDiv(depth(), terms), MostFirstPacks()),
                       "packs of weights that a thread prefetches");
    std::vector<Column> columns;
    if (makes_weights_) {
      CExpr column = "column";
      if (!fits) {
        column = builder_.Unique("weights_column");
        Let(column.word(), MinOf(columns_ - 1, "column"), 0, matmul_.n - 1);
      }
      columns.push_back({RightFrom(column, {}, pack, pack_name), {}});
    } else {
      CExpr column = fits ? "column" : MinOf(ResultColumns() - 1, "column");
      if (is_paired_) {
        Let("first_of_pair", FirstOfPair(column), 0, matmul_.n - 1);
        column = "first_of_pair";
      }
      const auto add = [&](const char* name, const CExpr& at) {
        const std::string weights = builder_.Unique(name);
        builder_.Append(
            Statement::Let(CExpr::Type(MemoryTypeName(dtype()) + "*"), weights, b_ + at * depth_));
        columns.push_back({weights, {}});
      };
      add("weights", column);
      if (is_paired_) add("second_weights", column + InTurn());
    }
    builder_.Blank();
    builder_.Comment("Prefetch the weights before the other operand is needed.");
    for (Column& column : columns) {
      const bool is_second = &column != &columns[0];
      column.first_weights = builder_.Unique(is_second ? "first_second_weights" : "first_weights");
      builder_.Append(
          Statement::Let("auto", column.first_weights.word(),
                         Call(Template("ReadFirstWeights", {WarpsPerColumn(), pack_name, packs}),
                              {column.weights, depth_})));
    }
    if (makes_weights_ || IsConstant(matmul_.b.value)) {
      if (fits) ReadColumnWeights(Variable("column"));
      builder_.Append(Statement::Await());
    }
    return columns;
  }

  // Writes the epilogue for the threads that have a row: those for which `is_row` holds and `row`
  // exists.
  void StoreRows(const CExpr& row, const CExpr& is_row, bool fits) {
    const Expr column = Variable("column");
    if (kernel_.most_rows == 1 && fits) {
      // There is no branch here, so that the epilogue's loads start before the sum is complete.
      builder_.Blank();
      builder_.Comment(EpilogueInWords());
      const std::vector<Scalar> results = EvaluateResults(0, column);
      builder_.Open(/*is_branch=*/true);
      Store(IndexOfResult(0, column), results);
      builder_.CloseIf(Equal(row, 0));
      return;
    }
    Let("row", row, 0, matmul_.m - 1);
    builder_.Blank();
    builder_.Comment(EpilogueInWords());
    builder_.Open(/*is_branch=*/true);
    StoreElement(Variable("row"), column);
    const CExpr inside = And(is_row, "row" < RowCount());
    builder_.CloseIf(fits ? inside : And(inside, "column" < ResultColumns()));
  }

  const schedule::Rows& kernel_;
};

}  // namespace

KernelPlan PlanMatMulRows(const Node& region, const MatMulPlan& matmul, const schedule::Rows& rows,
                          KernelBuilder& builder) {
  return RowsPlanner(region, matmul, rows, builder).Plan();
}

}  // namespace fusec
