#include <algorithm>
#include <bit>

#include "compiler/plan/loop_writer.h"
#include "compiler/region/found_sum.h"

namespace fusec {

namespace {

constexpr int kThreads = 512, kWarp = 32;

// The kernel of a sum that finds its updates (region/found_sum.h).
class FoundSumPlanner : LoopWriter {
 public:
  FoundSumPlanner(const Node& region, KernelBuilder& builder)
      : LoopWriter(region, builder, SegmentsOf(region)), found_(*FoundSumOf(region)) {
    segments_.lead = 1;
  }

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    builder_.Use("digits.cuh");
    builder_.Use("found_updates.cuh");
    ChooseRows();
    DeclareArrays();
    FindUpdates();
    StoreRows();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  const LoopGroup& Group() const { return segments_.groups[0]; }
  const Expr& Updates() const { return found_.places->type.shape[0]; }
  const Expr& Places() const { return Group().shape()[0]; }

  void ChooseRows() {
    KernelPlan& plan = builder_.plan();
    plan.block_size = builder_.shape().block_size > 0 ? builder_.shape().block_size : kThreads;
    lanes_ = LanesOfRows(Group());
    vectors_ = *Product(Inner(Group().shape())).AsConstant() / lanes_;
    rows_ = std::clamp<int64_t>(plan.block_size / std::max<int64_t>(vectors_, 1), 1, kWarp);
    const int bits = std::bit_width(static_cast<uint64_t>(rows_ - 1));
    plan.blocks = CeilDiv(Places(), rows_, builder_.ranges());
    plan.launch_in_words = "a block finds the updates of its rows, one thread per " +
                           std::to_string(lanes_) + " elements of the result";
    auto& constants = builder_.expressions();
    rows_name_ = constants.Constant("rows_of_block", rows_, "rows of the result");
    bits_ = constants.Constant("row_bits", bits, "that number them");
    no_row_ = constants.Constant("no_row", int64_t{1} << bits, "stands for rows of other blocks");
    warp_size_ = constants.Constant("warp_size", kWarp, "threads");
    warps_ = constants.Constant("warps", plan.block_size / kWarp, "of a block");
    builder_.AppendLet("first_row", BlockNumber(builder_) * rows_name_);
    updates_ = builder_.Write(Updates(), CountOf("updates", "rows that are added up"));
  }

  void DeclareArrays() {
    auto& constants = builder_.expressions();
    const CExpr most = constants.Constant("most_updates", kMostUpdatesFound, "of a call");
    const auto shared = [&](const char* type, const CExpr& array) {
      builder_.Append(Statement::Declare(CExpr::Type(std::string("__shared__ ") + type), array));
    };
    shared("unsigned short", CExpr("counts")[warps_][no_row_ + 1]);
    shared("unsigned short", CExpr("order")[most]);
    shared("int", CExpr("begins")[rows_name_ + 1]);
    const auto integer = [&](const char* name, const CExpr& value) {
      builder_.Append(Statement::Let("int", name, value));
    };
    integer("warp", "threadIdx.x" / warp_size_);
    integer("thread_in_warp", "threadIdx.x" % warp_size_);
    builder_.Open();
    builder_.Assign(CExpr("counts")["warp"]["i"], 0);
    builder_.CloseFor(IntLoopHeader("i", "thread_in_warp", "i" <= no_row_, warp_size_));
    builder_.AppendCall("__syncwarp()");
    integer("chunks", (updates_ + warp_size_ - 1) / warp_size_);
    integer("of_warp", ("chunks" + warps_ - 1) / warps_);
    integer("first", "warp" * CExpr("of_warp") * warp_size_ + "thread_in_warp");
  }

  // A thread keeps the rows of all its updates.
  void FindUpdates() {
    builder_.Comment("find the updates of the block's rows, and list them row by row");
    const int64_t warps = builder_.plan().block_size / kWarp;
    const CExpr own = builder_.expressions().Constant(
        "own", CeilDiv(kMostUpdatesFound / kWarp, warps), "the most updates of a thread");
    builder_.Append(Statement::Declare("int", CExpr("rows")[own]));
    builder_.Append(Statement::Declare("int", CExpr("ranks")[own]));
    builder_.BeginNotes();
    builder_.Open();
    builder_.AppendLet("update", "first" + CExpr("i") * warp_size_);
    builder_.Assign(CExpr("rows")["i"], no_row_);
    builder_.Open(/*is_branch=*/true);
    const Expr update = builder_.DefineVariable("update", 0, Updates() - 1);
    const CExpr place = lowering_.Evaluate(found_.places, {update}).value;
    builder_.Assign(CExpr("rows")["i"],
                    Call(Template("RowOfBlock", {rows_name_, bits_}), {place, "first_row"}));
    builder_.CloseIf(And("i" < CExpr("of_warp"), "update" < updates_));
    builder_.CloseFor(IntLoopHeader("i", 0, "i" < own), "#pragma unroll");
    builder_.EndNotes();
    builder_.AppendCall(
        Call(Template("CountUpdates", {bits_}), {"rows", "ranks", CExpr("counts")["warp"]}));
    builder_.AppendCall("__syncthreads()");
    builder_.AppendCall(Call(Template("ListUpdates", {rows_name_}),
                             {"rows", "ranks", "counts", "first", "order", "begins"}));
    builder_.AppendCall("__syncthreads()");
  }

  void StoreRows() {
    const SizeName of_row = {
        vectors_, "vectors_per_row",
        (lanes_ > 1 ? LanesName(lanes_) : CExpr(1)).ToString() + " elements each"};
    const CExpr vectors = builder_.Write(vectors_, Only(of_row));
    builder_.Open();
    builder_.AppendLet("row_of_block", "i" / vectors);
    builder_.AppendLet("row", "first_row" + CExpr("row_of_block"));
    builder_.Open(/*is_branch=*/true);
    builder_.DefineVariable("i", 0, rows_ * vectors_ - 1);
    const Expr row = builder_.DefineVariable("row", 0, Places() - 1);
    const auto begin = [&](const CExpr& at) { return Scalar{CExpr("begins")[at], Dtype::kI64}; };
    lowering_.Bind(found_.bounds, {row}, begin("row_of_block"));
    lowering_.BindAlso(found_.bounds, {row + 1}, begin("row_of_block" + CExpr(1)));
    lowering_.Keep(found_.order, {.array = "order", .for_all_rows = true});
    StoreElementOf({row}, Group(), lanes_, Only(of_row));
    builder_.CloseIf("row" < builder_.Write(Places(), CountOf("rows", "rows of the result")));
    builder_.CloseFor(
        IntLoopHeader("i", "threadIdx.x", "i" < rows_name_ * vectors, BlockSizeName(builder_)));
  }

  const FoundSum found_;
  int64_t lanes_ = 1, vectors_ = 1;  // elements of a vector, vectors of a row
  int64_t rows_ = 1;                 // of a block
  CExpr rows_name_, bits_, no_row_, warp_size_, warps_, updates_;
};

}  // namespace

KernelPlan PlanFoundSum(const Node& region, KernelBuilder& builder) {
  return FoundSumPlanner(region, builder).Plan();
}

}  // namespace fusec
