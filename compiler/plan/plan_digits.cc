#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/plan/line_writer.h"

namespace fusec {

namespace {

constexpr int64_t kMostThreads = 256, kWarp = 32;

// The kernels of a radix sort (passes/sort_by_digits.h): a block takes a tile of the numbers.
class DigitsPlanner : LineWriter {
 public:
  DigitsPlanner(const Node& region, KernelBuilder& builder)
      : LineWriter(region, builder),
        numbers_(node_.operand(0)),
        count_(numbers_->type.shape[0]),
        tiles_(CeilDiv(count_, node_.Int("tile"), builder.ranges())) {}

  KernelPlan Plan() {
    DeclareSizes();
    if (node_.kind == OpKind::kDigitCounts)
      PlanCounts();
    else
      PlanOrder();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  void DeclareSizes() {
    const int64_t tile = node_.Int("tile");
    const int64_t threads = std::min(CeilDiv(tile, kWarp) * kWarp, kMostThreads);
    KernelPlan& plan = builder_.plan();
    plan.block_size = static_cast<int>(threads);
    plan.blocks = tiles_;
    plan.launch_in_words = "one block per tile of numbers";
    builder_.Use("digits.cuh");
    auto& constants = builder_.expressions();
    digits_ = constants.Constant("digits", DigitCount(), "different ones");
    bits_ = constants.Constant("bits", node_.Int("bits"), "of a digit");
    shift_ = constants.Constant("shift", node_.Int("shift"), "the digit's lowest bit");
    tile_ = constants.Constant("tile", tile, "numbers of a block");
    own_ = constants.Constant("own", CeilDiv(tile, threads), "numbers of a thread");
    builder_.AppendLet("tile", BlockNumber(builder_));
    builder_.DefineVariable("tile", 0, tiles_ - 1);
  }

  int64_t DigitCount() const { return int64_t{1} << node_.Int("bits"); }
  CExpr Digit(const CExpr& number) const {
    return Call(Template("DigitOf", {shift_, bits_}), {number});
  }

  // Loops: over the digits, and over a thread's own numbers, those of the vector that exist. The
  // second one reads a number at the local `place`; those of a warp are consecutive.
  void OpenDigits() {
    builder_.Open();
    builder_.DefineVariable("digit", 0, DigitCount() - 1);
  }
  void CloseDigits() {
    builder_.CloseFor(
        IntLoopHeader("digit", "threadIdx.x", CExpr("digit") < digits_, BlockSizeName(builder_)));
  }
  void OpenOwn() {
    builder_.Open();
    const CExpr in_warp = "threadIdx.x" % Warp();
    builder_.AppendLet("in_tile", ("threadIdx.x" / Warp() * own_ + "i") * Warp() + in_warp);
    builder_.AppendLet("place", "tile" * tile_ + "in_tile");
  }
  Expr OpenPlace() {
    builder_.Open(/*is_branch=*/true);
    return builder_.DefineVariable("place", 0, count_ - 1);
  }
  void ClosePlace() {
    const CExpr in_vector = "place" < builder_.Write(count_, Extent(numbers_, 0));
    // The last warps of a small tile may have no numbers.
    const bool is_whole = node_.Int("tile") % builder_.plan().block_size == 0;
    builder_.CloseIf(is_whole ? in_vector : And("in_tile" < tile_, in_vector));
  }
  void CloseOwn() { builder_.CloseFor(IntLoopHeader("i", 0, "i" < own_), "#pragma unroll"); }
  CExpr Warp() { return builder_.expressions().Constant("warp_size", kWarp, "threads"); }

  void PlanCounts() {
    builder_.Append(Statement::Declare("__shared__ int", CExpr("counts")[digits_]));
    OpenDigits();
    builder_.Assign(CExpr("counts")["digit"], 0);
    CloseDigits();
    builder_.AppendCall("__syncthreads()");
    builder_.Comment("digit_counts: all threads count together");
    OpenOwn();
    const Expr place = OpenPlace();
    const CExpr number = lowering_.Evaluate(numbers_, {place}).value;
    builder_.AppendCall(Call("atomicAdd", {CExpr("counts") + Digit(number), 1}));
    ClosePlace();
    CloseOwn();
    builder_.AppendCall("__syncthreads()");
    OpenDigits();
    lowering_.Store(0, {Variable("digit"), Variable("tile")},
                    {CExpr("counts")["digit"], Dtype::kI32});
    CloseDigits();
  }

  // The numbers of a tile are put in order in shared memory, so that threads side by side store
  // numbers side by side.
  void PlanOrder() {
    builder_.Use("block_reduce.cuh");
    builder_.Use("block_scan.cuh");
    auto& constants = builder_.expressions();
    const int64_t warps = builder_.plan().block_size / kWarp;
    warps_ = constants.Constant("warps", warps, "of a block");
    builder_.Comment("the last column is for lanes without a number");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ unsigned short"),
                                       CExpr("counts")[warps_][digits_ + 1]));
    builder_.Append(Statement::Declare("__shared__ int", CExpr("offsets")[digits_]));
    const auto in_order = [&](const Value* value, const char* name) {
      const CExpr type = CExpr::Type("__shared__ " + std::string(CTypeName(value->type.dtype)));
      builder_.Append(Statement::Declare(type, CExpr(name)[tile_]));
    };
    in_order(numbers_, "ordered");
    in_order(node_.operand(1), "moved");
    builder_.Append(Statement::Declare("__shared__ int", CExpr("folds")[warps_]));
    builder_.Open();
    builder_.Assign(CExpr("counts")["i" / (digits_ + 1)]["i" % (digits_ + 1)], 0);
    builder_.CloseFor(
        IntLoopHeader("i", "threadIdx.x", "i" < warps_ * (digits_ + 1), BlockSizeName(builder_)));
    builder_.AppendCall("__syncthreads()");
    builder_.AppendLet("warp", "threadIdx.x" / Warp());
    RankNumbers();
    PlaceDigits();
    OrderTile();
    StoreTile();
  }

  void RankNumbers() {
    builder_.Comment(
        "order_by_digit: how many numbers of the warp with the same digit come before");
    const std::string type = CTypeName(numbers_->type.dtype);
    builder_.Append(Statement::Declare(CExpr::Type(type), CExpr("numbers")[own_]));
    builder_.Append(Statement::Declare("int", CExpr("ranks")[own_]));
    OpenOwn();
    builder_.Declare("int", "digit", digits_);
    const Expr place = OpenPlace();
    builder_.Assign(CExpr("numbers")["i"], lowering_.Evaluate(numbers_, {place}).value);
    builder_.Assign("digit", Digit(CExpr("numbers")["i"]));
    ClosePlace();
    builder_.Assign(CExpr("ranks")["i"],
                    Call(Template("CountDigit", {bits_}), {"digit", CExpr("counts")["warp"]}));
    CloseOwn();
    builder_.AppendCall("__syncthreads()");
  }

  // counts = where the numbers of each warp with a digit begin in the tile; offsets = how much
  // further on they are in the result.
  void PlaceDigits() {
    builder_.Comment("digits of the tile in order, " + BlockSizeName(builder_).ToString() +
                     " at a time");
    builder_.Declare("int", "total", 0);
    builder_.Open();
    builder_.AppendLet("digit", "first_digit" + CExpr("threadIdx.x"));
    builder_.Declare("int", "count", 0);
    const CExpr exists = CExpr("digit") < digits_;
    builder_.Append(Statement::If(
        exists, {Statement::Assign("count", Call("CountInWarps", {"counts", "digit"}))}));
    builder_.AppendLet("begin",
                       Call(Template("BlockScan", {"SumOf"}), {"count", "total", "folds"}));
    builder_.Open(/*is_branch=*/true);
    builder_.DefineVariable("digit", 0, DigitCount() - 1);
    const Scalar first =
        lowering_.Evaluate(node_.operand(2), {Variable("digit"), Variable("tile")});
    builder_.Assign(CExpr("offsets")["digit"], first.value - "begin");
    builder_.AppendCall(Call("PlaceDigit", {"counts", "digit", "begin"}));
    builder_.CloseIf(exists);
    builder_.CloseFor(
        IntLoopHeader("first_digit", 0, "first_digit" < digits_, BlockSizeName(builder_)));
    builder_.AppendCall("__syncthreads()");
  }

  void OrderTile() {
    OpenOwn();
    const Expr from = OpenPlace();
    const CExpr number = CExpr("numbers")["i"];
    builder_.AppendLet("to", CExpr("counts")["warp"][Digit(number)] + CExpr("ranks")["i"]);
    builder_.Assign(CExpr("ordered")["to"], number);
    builder_.Assign(CExpr("moved")["to"], lowering_.Evaluate(node_.operand(1), {from}).value);
    ClosePlace();
    CloseOwn();
    builder_.AppendCall("__syncthreads()");
  }

  void StoreTile() {
    builder_.Open();
    builder_.AppendLet("in_tile", "threadIdx.x" + CExpr("i") * BlockSizeName(builder_));
    builder_.Open(/*is_branch=*/true);
    const CExpr number = CExpr("ordered")["in_tile"];
    builder_.AppendLet("to", CExpr("offsets")[Digit(number)] + "in_tile");
    builder_.Open(/*is_branch=*/true);
    const Expr to = builder_.DefineVariable("to", 0, count_ - 1);
    const auto& outputs = region_.body->outputs;  // numbers, what moves with them, or both
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool moves = outputs[i]->result_index == 1;
      lowering_.Store(static_cast<int>(i), {to},
                      {moves ? CExpr("moved")["in_tile"] : number, outputs[i]->type.dtype});
    }
    const CExpr count = builder_.Write(count_, Extent(numbers_, 0));
    builder_.CloseIf(And(CExpr("to") >= 0, "to" < count));
    builder_.CloseIf(CExpr("in_tile") < CExpr("total"));
    CloseOwn();
  }

  const Value* const numbers_;
  const Expr count_, tiles_;
  CExpr digits_, bits_, shift_, tile_, own_, warps_;  // constants
};

}  // namespace

KernelPlan PlanDigits(const Node& region, KernelBuilder& builder) {
  return DigitsPlanner(region, builder).Plan();
}

}  // namespace fusec
