#include <algorithm>

#include "compiler/kernel/fold.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/region/block_stages.h"

namespace fusec {

namespace {

constexpr int64_t kMostPack = 32;  // weights that are computed at once: 16 bytes of 4-bit codes
constexpr int64_t kWeightsOfBlock = 1 << 16;

// The schedule Rows on a CPU.
class ColumnsPlanner : ProductPlanner {
 public:
  ColumnsPlanner(const Node& region, const MatMulPlan& matmul, const schedule::Rows& kernel,
                 KernelBuilder& builder)
      : ProductPlanner(region, matmul, builder), most_rows_(kernel.most_rows) {
    makes_weights_ = true;
  }

  KernelPlan Plan() {
    NameOperands(/*reads_weights=*/false, /*takes_sizes=*/false);
    builder_.Use("vector.cuh");
    builder_.Use("matmul_columns.cuh");
    IndexWriter& names = builder_.expressions();
    const int64_t chunk = std::clamp<int64_t>(kWeightsOfBlock / depth(), 1, columns());
    KernelPlan& plan = builder_.plan();
    // An empty batch has no blocks.
    plan.blocks = Expr(CeilDiv(columns(), chunk)) * Min(matmul_.m, 1, builder_.ranges());
    plan.launch_in_words = "blocks of " + std::to_string(chunk) + " columns";
    const CExpr chunk_name = names.Constant("chunk", chunk, "columns of one block");
    Let("first_column", BlockNumber() * chunk_name, 0, matmul_.n - 1);
    builder_.AppendLet("last_column", MinOf(columns_, "first_column" + chunk_name));
    const CExpr most = names.Constant("most_rows", most_rows_, "rows of the result");
    builder_.Append(Statement::Declare("float", CExpr("products")[most]));
    builder_.Open();
    builder_.DefineVariable("column", 0, matmul_.n - 1);
    const int64_t pack = Aligned(kMostPack);
    const CExpr pack_name = names.Constant("pack", pack, "weights that are computed at once");
    const CExpr made = RightFrom("column", {}, pack, pack_name);
    builder_.AppendCall(
        Call(Template("MultiplyColumn", {pack_name}), {a_, RowCount(), made, depth_, "products"}));
    builder_.Open();
    builder_.DefineVariable("row", 0, matmul_.m - 1);
    builder_.Append(Statement::Let("float", "product", CExpr("products")["row"]));
    builder_.DefineVariable("product", 0, 0);
    builder_.Comment(EpilogueInWords());
    StoreElement(Variable("row"), Variable("column"));
    builder_.CloseFor(LoopHeader(builder_, "row", 0, RowCount()));
    builder_.CloseFor(LoopHeader(builder_, "column", "first_column", "last_column"));
    return Finish(0);
  }

 private:
  const int64_t most_rows_;
};

}  // namespace

KernelPlan PlanMatMulColumns(const Node& region, const MatMulPlan& matmul,
                             const schedule::Rows& rows, KernelBuilder& builder) {
  return ColumnsPlanner(region, matmul, rows, builder).Plan();
}

}  // namespace fusec
