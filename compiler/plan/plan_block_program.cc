#include <algorithm>

#include "compiler/ops/c_text.h"
#include "compiler/plan/block_stages.h"
#include "compiler/plan/fold.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kBlockSize = 256;
constexpr int kWarpSize = 32;
constexpr int64_t kMostRows = 32;  // of a block
constexpr int64_t kSharedElements =
    10240;  // 40 KB of floats: what any GPU gives without being asked

// Stage after stage for the rows of a block. A thread makes one element at a time; where a stage
// has few elements but long sums, a warp makes one.
class BlockProgramPlanner {
 public:
  BlockProgramPlanner(const Node& region, KernelBuilder& builder)
      : region_(region), builder_(builder), lowering_(region, builder) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    const Graph& body = *region_.body;
    std::vector<const Node*> nodes;
    for (const auto& node : body.nodes) nodes.push_back(node.get());
    const Shape& shape = body.outputs[0]->type.shape;
    rows_ = region_.Get<std::vector<Expr>>("rows");
    const std::function<bool(const Value*)> is_result = [&](const Value* value) {
      return std::find(body.outputs.begin(), body.outputs.end(), value) != body.outputs.end();
    };
    stages_ = FindBlockStages(nodes, rows_, is_result);
    FUSEC_CHECK(!stages_.empty() && !shape.empty(), "no stages in " + PrintNode(region_));
    OpenRows();
    for (const BlockStage& stage : stages_) {
      PlanStage(stage);
      const bool last = &stage == &stages_.back();
      if (!last) builder_.Append({Statement::Kind::kCall, "", "", "__syncthreads()", {}, {}});
    }
    CountTraffic(region_, builder_.plan());
    for (const Node* node : nodes) {
      if (node->kind != OpKind::kMatMul) continue;
      builder_.plan().flops =
          builder_.plan().flops + node->result()->type.ElementCount() * MatMulDepth(*node) * 2;
    }
    return builder_.Finish();
  }

 private:
  const std::string& BlockSize() {
    return builder_.expressions().OwnConstant("block_size", builder_.plan().block_size, "threads");
  }
  const std::string& RowsPerBlock() {
    return builder_.expressions().OwnConstant("rows_per_block", rows_per_block_,
                                              "rows that a block owns");
  }

  // Enough rows to occupy the block's threads, as many as its shared memory holds.
  void OpenRows() {
    int64_t widest = 1, kept = 0;
    for (const BlockStage& stage : stages_) {
      const int64_t elements = ElementsPerRow(stage.value, rows_);
      widest = std::max(widest, elements);
      if (stage.kept) kept += elements;
    }
    while (rows_per_block_ < kMostRows && rows_per_block_ * widest < kBlockSize &&
           2 * rows_per_block_ * kept <= kSharedElements) {
      rows_per_block_ *= 2;
    }
    KernelPlan& plan = builder_.plan();
    const Expr rows = Product(rows_);
    plan.block_size = kBlockSize;
    plan.blocks = CeilDiv(rows, rows_per_block_, builder_.ranges());
    plan.launch_in_words = rows_per_block_ == 1
                               ? "one block per row"
                               : "a block owns " + std::to_string(rows_per_block_) + " rows";
    const std::string type = plan.index_type;
    const std::string cast = type == "int" ? "" : "(long long)";
    if (rows_per_block_ == 1) {
      builder_.Append({Statement::Kind::kLet, type, "row", cast + "blockIdx.x", {}, {}});
      builder_.DefineVariable("row", 0, rows - 1);
      lowering_.SetRowInBlock(0);
      row_index_ = Coordinates(builder_, Expr::Symbol("row"), rows_, "row");
      return;
    }
    builder_.Append({Statement::Kind::kLet,
                     type,
                     "first_row",
                     cast + "blockIdx.x * " + RowsPerBlock(),
                     {},
                     {}});
    builder_.DefineVariable("first_row", 0, rows - 1);
    builder_.Append({Statement::Kind::kLet,
                     type,
                     "rows_here",
                     "min(" + RowsPerBlock() + ", " + builder_.Write(rows) + " - first_row)",
                     {},
                     {}});
    builder_.DefineVariable("rows_here", 1, rows_per_block_);
  }

  // Whether warps share out the sums of this stage: it has too few elements for the threads of a
  // block.
  bool UsesWarps(const BlockStage& stage) const {
    if (stage.inlined.size() != 1 || stage.inlined[0]->kind == OpKind::kMatMul) return false;
    const auto length = Product(ReducedDims(*stage.inlined[0])).AsConstant();
    return length && *length >= kWarpSize;
  }

  void PlanStage(const BlockStage& stage) {
    const Shape& shape = stage.value->type.shape;
    const Shape inner(shape.begin() + static_cast<int64_t>(rows_.size()), shape.end());
    const int64_t elements = ElementsPerRow(stage.value, rows_);
    const std::string name = FriendlyName(stage.value->name);
    std::string array;
    builder_.Blank();
    if (stage.kept) array = DeclareArray(stage, name, elements);
    builder_.Comment(name + ": " + Words(stage));
    const bool warps = UsesWarps(stage);
    const std::string total = rows_per_block_ == 1
                                  ? builder_.Write(Expr(elements))
                                  : "rows_here * " + builder_.Write(Expr(elements));
    const std::string header = warps ? LoopHeader(builder_, "i", "threadIdx.x / " + WarpSize(),
                                                  total, BlockSize() + " / " + WarpSize())
                                     : LoopHeader(builder_, "i", "threadIdx.x", total, BlockSize());
    builder_.Open();
    builder_.DefineVariable("i", 0, Expr(rows_per_block_ * elements) - 1);
    const std::vector<Expr> index = ElementIndex(inner, elements, name);
    for (const Node* reducer : stage.inlined) Reduce(*reducer, index, warps);
    const Scalar scalar = lowering_.Evaluate(stage.value, index);
    if (warps) builder_.Open(/*is_branch=*/true);
    if (stage.kept) builder_.Assign(array + "[i]", scalar.text);
    StoreResults(stage, index, scalar);
    if (warps) {
      builder_.Append({Statement::Kind::kIf,
                       "",
                       "",
                       "threadIdx.x % " + WarpSize() + " == 0",
                       builder_.Close(),
                       {}});
    }
    builder_.CloseFor(header);
    lowering_.ClearBindings();
    if (stage.kept) lowering_.Keep(stage.value, array, rows_.size());
  }

  const std::string& WarpSize() {
    return builder_.expressions().OwnConstant("warp_size", kWarpSize, "threads");
  }

  static std::string Words(const BlockStage& stage) {
    std::string words;
    for (const Node* reducer : stage.inlined)
      words += (words.empty() ? "" : ", ") + std::string(GetOpDef(reducer->kind).text);
    const Node* last = stage.value->producer;
    if (stage.inlined.empty() || stage.inlined.back() != last)
      words += (words.empty() ? "" : " and what follows it, up to ") +
               std::string(GetOpDef(last->kind).text);
    return words;
  }

  std::string DeclareArray(const BlockStage& stage, const std::string& name, int64_t elements) {
    const std::string array = builder_.Unique(name + "_rows");
    builder_.expressions().NameConstant(elements, name + "_elements",
                                        "of one row of \"" + name + "\"");
    const std::string size = builder_.Write(Expr(elements));
    builder_.Append(
        {Statement::Kind::kDeclare,
         "__shared__ " + CTypeName(stage.value->type.dtype),
         array + "[" + (rows_per_block_ == 1 ? size : RowsPerBlock() + " * " + size) + "]",
         "",
         {},
         {}});
    return array;
  }

  // The whole index of the element that `i` counts: its row of the block, its place in the row.
  std::vector<Expr> ElementIndex(const Shape& inner, int64_t elements, const std::string& name) {
    Expr element = Expr::Symbol("i");
    if (rows_per_block_ > 1) {
      Expr row_in_block = element;
      if (elements > 1) {
        row_in_block = LocalVariable("row_in_block", FloorDiv(element, elements, builder_.ranges()),
                                     rows_per_block_);
        element = element - row_in_block * elements;
      } else {
        element = 0;
      }
      lowering_.SetRowInBlock(row_in_block);
      LocalVariable("row", Expr::Symbol("first_row") + row_in_block, Product(rows_));
      if (elements > 1) element = LocalVariable("element", element, elements);
    } else if (elements == 1) {
      element = 0;
    }
    std::vector<Expr> index = rows_per_block_ == 1
                                  ? row_index_
                                  : Coordinates(builder_, Expr::Symbol("row"), rows_, "row");
    for (const Expr& coordinate : Coordinates(builder_, element, inner, name))
      index.push_back(coordinate);
    return index;
  }

  // A local called `name` in the open scope, 0 <= value < `extent`.
  Expr LocalVariable(const std::string& name, const Expr& value, const Expr& extent) {
    builder_.Append(
        {Statement::Kind::kLet, builder_.plan().index_type, name, builder_.Write(value), {}, {}});
    builder_.DefineVariable(name, 0, extent - 1);
    return Expr::Symbol(name);
  }

  // The loop of a matmul or reduction for element `index` of its result, which is bound to the
  // local that holds it.
  void Reduce(const Node& reducer, const std::vector<Expr>& index, bool warps) {
    const Value* result = reducer.result();
    const Dtype dtype = FoldDtype(reducer);
    const Fold fold = FoldOf(reducer.kind, dtype);
    const bool is_mean = reducer.kind == OpKind::kReduceMean;
    const std::string total = builder_.Unique(FriendlyName(result->name) + (is_mean ? "_sum" : ""));
    builder_.Declare(CTypeName(dtype), total, fold.start);
    const bool is_matmul = reducer.kind == OpKind::kMatMul;
    const Shape dims = is_matmul ? Shape{MatMulDepth(reducer)} : ReducedDims(reducer);
    const Expr length = Product(dims);
    builder_.expressions().NameConstant(*length.AsConstant(), FriendlyName(result->name) + "_depth",
                                        "terms of its sum");
    const std::string header = warps ? LoopHeader(builder_, "k", "threadIdx.x % " + WarpSize(),
                                                  builder_.Write(length), WarpSize())
                                     : LoopHeader(builder_, "k", "0", builder_.Write(length));
    builder_.Open();
    builder_.DefineVariable("k", 0, length - 1);
    const std::vector<Expr> k = Coordinates(builder_, Expr::Symbol("k"), dims, "k");
    std::string term;
    if (is_matmul) {
      const std::string a =
          lowering_.Evaluate(reducer.operand(0), MatMulOperandIndex(reducer, 0, index, k[0])).text;
      const std::string b =
          lowering_.Evaluate(reducer.operand(1), MatMulOperandIndex(reducer, 1, index, k[0])).text;
      term = a + " * " + b;
    } else {
      term = lowering_.Evaluate(reducer.operand(0), ReductionOperandIndex(reducer, index, k)).text;
    }
    if (fold.step("a", "b").find("Combine") != std::string::npos) builder_.Use("block_reduce.cuh");
    builder_.Assign(total, fold.step(total, term));
    builder_.CloseFor(header);
    if (warps) {
      builder_.Use("block_reduce.cuh");
      builder_.Assign(total, "WarpReduce<" + fold.how + ">(" + total + ")");
    }
    Scalar scalar{total, result->type.dtype};
    if (is_mean) {
      scalar.text =
          builder_.Let(CTypeName(dtype), FriendlyName(result->name),
                       total + " / (" + CTypeName(dtype) + ")(" + builder_.Write(length) + ")");
    }
    lowering_.Bind(result, index, scalar);
  }

  void StoreResults(const BlockStage& stage, const std::vector<Expr>& index, const Scalar& scalar) {
    for (const BlockStage::Stored& stored : stage.stored) {
      const auto& outputs = region_.body->outputs;
      const auto place = std::find(outputs.begin(), outputs.end(), stored.result);
      lowering_.Store(static_cast<int>(place - outputs.begin()),
                      IndexBehind(stored.views, index, builder_.ranges()), scalar);
    }
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  Shape rows_;
  std::vector<BlockStage> stages_;
  int64_t rows_per_block_ = 1;
  std::vector<Expr> row_index_;  // where a block owns one row
};

}  // namespace

KernelPlan PlanBlockProgram(const Node& region, KernelBuilder& builder) {
  return BlockProgramPlanner(region, builder).Plan();
}

}  // namespace fusec
