#include <algorithm>
#include <map>
#include <optional>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/prefetch_rows.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/row_walk.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kShortRow = 15;         // up to this length a thread reduces a row
constexpr int kShortColumn = 64;      // the same, if consecutive threads read consecutive elements
constexpr int kWarpRow = 1024;        // up to this length a warp does, without barriers
constexpr int kWarpsBlockSize = 256;  // if each warp has a row
// Registers per thread that may hold values which later passes over the row need again.
constexpr int64_t kKeptRegisters = 96;
constexpr int64_t kFewKeptRegisters = 36;  // the same in a block of 1024 threads

bool IsArg(const Node& node) {
  return node.kind == OpKind::kArgMax || node.kind == OpKind::kArgMin;
}

// Whether the reduced elements of a row are not contiguous: elements of other rows lie between
// them.
bool ReducesAcross(const Node& reduction) {
  if (!reduction.Has("axes")) return false;
  const std::vector<int64_t>& axes = reduction.Ints("axes");
  return std::find(axes.begin(), axes.end(), reduction.operand(0)->type.rank() - 1) == axes.end();
}

class RowReductionPlanner {
 public:
  RowReductionPlanner(const Node& region, KernelBuilder& builder)
      : region_(region), builder_(builder), lowering_(region, builder) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    FindSpace();
    const Expr rows = Product(kept_);
    const Expr length = Product(reduced_);
    const int64_t length_high = builder_.ranges().IntervalOf(length).high;
    KernelPlan& plan = builder_.plan();
    if (builder_.target() == TargetKind::kCpu) {
      const int64_t chunk = std::clamp<int64_t>(
          CpuBlockElements(builder_) / std::max<int64_t>(1, length_high), 1, 4096);
      OpenChunkOfRows(rows, chunk);
      PlanRow(Team::kThread);
      CloseRowsOnCpu(builder_, region_, LoopHeader(builder_, "row", "first_row", "last_row"),
                     WriteSize(builder_, rows, Rows()));
    } else {
      const Team team = ChooseTeam(length_high);
      if (team == Team::kThread)
        OneThreadPerRow(rows);
      else if (team == Team::kWarp)
        OneWarpPerRow(rows);
      else
        OneBlockPerRow(rows);
      PlanRow(team);
    }
    CountTraffic(region_, plan);
    return builder_.Finish();
  }

 private:
  using Team = RowWalk::Team;

  Team ChooseTeam(int64_t length_high) const {
    const auto any = [&](const auto& is_it) {
      return std::any_of(reducers_.begin(), reducers_.end(), is_it);
    };
    switch (builder_.shape().team) {
      case LaunchShape::Team::kThread:
        return Team::kThread;
      case LaunchShape::Team::kWarp:
        return Team::kWarp;
      case LaunchShape::Team::kBlock:
        return Team::kBlock;
      case LaunchShape::Team::kPlanned:
        break;
    }
    if (any([](const Node* node) { return node->kind == OpKind::kMatMul; })) return Team::kThread;
    const int alone =
        any([](const Node* node) { return ReducesAcross(*node); }) ? kShortColumn : kShortRow;
    return length_high <= alone      ? Team::kThread
           : length_high <= kWarpRow ? Team::kWarp
                                     : Team::kBlock;
  }

  // Finds the rows, which are the elements of the reductions' results, and the reduced elements of
  // each row. All reductions of a region have the same ones (the fusion pass ensures it).
  void FindSpace() {
    for (const auto& node : region_.body->nodes) {
      if (IsReducer(*node)) reducers_.push_back(node.get());
    }
    FUSEC_CHECK(!reducers_.empty(), "no reduction in " + PrintNode(region_));
    const Node& first = *reducers_[0];
    if (first.kind == OpKind::kMatMul) {
      kept_ = first.result()->type.shape;
      reduced_ = {MatMulDepth(first)};
      return;
    }
    space_ = first.operand(0)->type.shape;
    const auto& axes = first.Ints("axes");
    for (int64_t axis = 0; axis < static_cast<int64_t>(space_.size()); ++axis) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
      is_reduced_.push_back(is_reduced);
      (is_reduced ? reduced_ : kept_).push_back(space_[axis]);
    }
  }

  void OpenChunkOfRows(const Expr& rows, int64_t chunk) {
    KernelPlan& plan = builder_.plan();
    plan.blocks = CeilDiv(rows, chunk, builder_.ranges());
    plan.launch_in_words = "blocks of " + std::to_string(chunk) + " rows";
    const CExpr chunk_name = builder_.expressions().Constant("chunk", chunk, "rows of one block");
    builder_.AppendLet("first_row", BlockNumber(builder_) * chunk_name);
    builder_.AppendLet("last_row",
                       Min("first_row" + chunk_name, WriteSize(builder_, rows, Rows())));
    builder_.Open();
    builder_.DefineVariable("row", 0, rows - 1);
  }

  static SizeNames Rows() { return CountOf("rows", "rows to reduce"); }

  void OneThreadPerRow(const Expr& rows) {
    KernelPlan& plan = builder_.plan();
    plan.block_size = GpuBlockSize(builder_);
    plan.launch_in_words = "one thread per row";
    RowOfBlock(rows, plan.block_size, BlockSizeName(builder_), "threadIdx.x");
  }

  void OneWarpPerRow(const Expr& rows) {
    const int wanted = builder_.shape().block_size;
    builder_.plan().block_size = wanted > 0 ? wanted : kWarpsBlockSize;
    const int rows_in_block = builder_.plan().block_size / RowWalk::kWarpSize;
    builder_.plan().launch_in_words = "one warp per row";
    auto& constants = builder_.expressions();
    const CExpr rows_per_block =
        constants.Constant("rows_per_block", rows_in_block, "one per warp");
    const CExpr warp_size =
        constants.Constant("warp_size", RowWalk::kWarpSize, "threads of a warp");
    builder_.Append(Statement::Let("int", "lane", "threadIdx.x" % warp_size));
    builder_.DefineVariable("lane", 0, RowWalk::kWarpSize - 1);
    RowOfBlock(rows, rows_in_block, rows_per_block, "threadIdx.x" / warp_size);
  }

  void OneBlockPerRow(const Expr& rows) {
    KernelPlan& plan = builder_.plan();
    plan.block_size = GpuBlockSize(builder_);
    if (plan.block_size == 1024) most_kept_ = kFewKeptRegisters;
    plan.blocks = rows;
    plan.launch_in_words = "one block per row";
    builder_.AppendLet("row", "blockIdx.x");
    builder_.DefineVariable("row", 0, rows - 1);
  }

  // Writes that a thread computes row number `row_in_block` of the `count` rows of its block.
  void RowOfBlock(const Expr& rows, int count, const CExpr& count_name, const CExpr& row_in_block) {
    KernelPlan& plan = builder_.plan();
    plan.blocks = CeilDiv(rows, count, builder_.ranges());
    builder_.AppendLet("row", BlockNumber(builder_) * count_name + row_in_block);
    builder_.AppendIf("row" >= builder_.Write(rows, Rows()), "return");
    builder_.DefineVariable("row", 0, rows - 1);
  }

  // Writes one loop over the row for each set of reductions whose operands depend on no unfinished
  // reduction; then the outputs.
  void PlanRow(Team team) {
    walk_.emplace(builder_, reduced_, team, WidestBytes());
    row_index_ = Coordinates(builder_, Variable("row"), kept_, "row");
    NodeSet done;
    while (done.size() < reducers_.size()) {
      std::vector<const Node*> ready;
      for (const Node* reducer : reducers_) {
        if (!done.count(reducer) && !Needs(reducer, done)) ready.push_back(reducer);
      }
      FUSEC_CHECK(!ready.empty(), "reductions of a region depend on each other in a circle");
      done.insert(ready.begin(), ready.end());
      ReduceTogether(ready, done);
    }
    StoreOutputs();
  }

  // Whether the operands of `reducer` depend on a reduction that is not done.
  bool Needs(const Node* reducer, const NodeSet& done) const {
    std::vector<const Value*> work(reducer->operands.begin(), reducer->operands.end());
    ValueSet seen;
    while (!work.empty()) {
      const Value* value = work.back();
      work.pop_back();
      if (!value || !value->producer || !seen.insert(value).second) continue;
      if (IsReducer(*value->producer)) {
        if (!done.count(value->producer)) return true;
        continue;
      }
      for (const Value* operand : value->producer->operands) work.push_back(operand);
    }
    return false;
  }

  // The index of element k of this row in the reduced tensor.
  Exprs FullIndex(ArrayRef<Expr> k) const {
    Exprs index;
    size_t kept = 0, reduced = 0;
    for (bool is_reduced : is_reduced_)
      index.push_back(is_reduced ? k[reduced++] : row_index_[kept++]);
    return index;
  }

  // The size of the widest element type among the operands and results that have an element for
  // every element of the rows, if a row is the last axis; else 0.
  int64_t WidestBytes() const {
    if (is_reduced_.empty() || !is_reduced_.back() || !(Product(reduced_) == reduced_.back()))
      return 0;
    int64_t widest = 1;
    const auto look_at = [&](const Value* value) {
      if (Product(value->type.shape) == Product(space_))
        widest = std::max<int64_t>(widest, DtypeBytes(value->type.dtype));
    };
    for (const Value* operand : region_.operands) look_at(operand);
    for (const auto& result : region_.results) look_at(result.get());
    return widest;
  }

  Exprs OpenRow() {
    const Exprs k = walk_->Open();
    if (walk_->slots() > 0) lowering_.SetSlot(FullIndex(k), walk_->Slot());
    return k;
  }

  void CloseRow(const std::string& pragma = "") {
    walk_->Close(pragma);
    lowering_.LeaveSlot();
  }

  // Keeps values of this pass over the row in registers if later passes need them: the last values
  // already computed on the way to unfinished reductions and to outputs.
  void KeepForLater(const NodeSet& done, ArrayRef<Expr> k) {
    if (walk_->slots() == 0) return;
    std::vector<const Value*> work;
    for (const Node* reducer : reducers_) {
      if (!done.count(reducer)) work.push_back(reducer->operand(0));
    }
    for (const auto& output : region_.body->outputs) work.push_back(output);
    ValueSet seen;
    while (!work.empty()) {
      const Value* value = work.back();
      work.pop_back();
      if (!value || !seen.insert(value).second || Keep(value, FullIndex(k)) || !value->producer ||
          IsReducer(*value->producer))
        continue;
      for (const Value* operand : value->producer->operands) work.push_back(operand);
    }
  }

  // Keeps `value` if possible; returns whether it is kept. Integers are not kept, because the place
  // that one was loaded from is known only for the local that it was loaded to.
  bool Keep(const Value* value, ArrayRef<Expr> index) {
    if (lowering_.IsInSlots(value)) return true;
    const Dtype dtype = value->type.dtype;
    if (!IsFloat(dtype) || value->type.shape != space_) return false;
    const Scalar* known = lowering_.Known(value, index);
    if (!known || !builder_.IsInnermost(known->value)) return false;
    if (auto same = arrays_.find(known->text()); same != arrays_.end()) {  // a view of it is kept
      lowering_.KeepInSlots(value, same->second);
      return true;
    }
    const int64_t registers = walk_->slots() * (dtype == Dtype::kF64 ? 2 : 1);
    if (kept_registers_ + registers > most_kept_) return false;
    kept_registers_ += registers;
    const std::string array = builder_.Unique(ModelName(value->name) + "_kept");
    builder_.DeclareAtTop(CTypeName(dtype), CExpr(array)[walk_->SlotsName()]);
    builder_.Assign(CExpr(array)[walk_->Slot()], known->value);
    arrays_[known->text()] = array;
    lowering_.KeepInSlots(value, array);
    return true;
  }

  Scalar Element(const Node& reducer, ArrayRef<Expr> k) {
    if (reducer.kind != OpKind::kMatMul)
      return lowering_.Evaluate(reducer.operand(0), FullIndex(k));
    const Dtype dtype = reducer.result()->type.dtype;
    Scalar factors[2];
    for (int side = 0; side < 2; ++side) {
      factors[side] = lowering_.Evaluate(reducer.operand(side),
                                         MatMulOperandIndex(reducer, side, row_index_, k[0]));
    }
    return {builder_.Let(CTypeName(dtype), "product", factors[0].value * factors[1].value), dtype};
  }

  // Writes one pass over the row for `reducers`; `done` are the reductions that are finished
  // afterwards, including these.
  void ReduceTogether(ArrayRef<const Node*> reducers, const NodeSet& done) {
    struct Running {
      const Node* node;
      Fold fold;
      std::string total, position;
    };
    std::vector<Running> all;
    std::map<std::string, std::string> simd;  // totals that lanes fold, by operation
    bool by_lanes = builder_.target() == TargetKind::kCpu, has_arg = false;
    for (const Node* reducer : reducers) {
      const Dtype dtype = FoldDtype(*reducer);
      Running running{reducer, FoldOf(reducer->kind, dtype), "", ""};
      const std::string name = ModelName(reducer->result()->name);
      builder_.Comment(std::string(GetOpDef(reducer->kind).text) + " over the row");
      if (IsArg(*reducer)) {
        running.total = builder_.Unique(name + "_best");
        builder_.Declare(CTypeName(dtype), running.total, Literal(0, dtype));
        running.position = builder_.Unique(name);
        builder_.Declare("long long", running.position, -1);
        by_lanes = false;
        has_arg = true;
      } else {
        running.total =
            builder_.Unique(name + (reducer->kind == OpKind::kReduceMean ? "_sum" : ""));
        builder_.Declare(CTypeName(dtype), running.total, running.fold.start);
        by_lanes &= !running.fold.simd.empty();
        std::string& alike = simd[running.fold.simd];
        alike += (alike.empty() ? "" : ", ") + running.total;
        if (running.fold.calls_how) builder_.Use("block_reduce.cuh");
      }
      all.push_back(running);
    }
    const Exprs k = OpenRow();
    arrays_.clear();  // the names of an earlier pass's locals may be reused
    for (const Running& running : all) {
      const Scalar element = Element(*running.node, k);
      if (IsArg(*running.node))
        KeepBest(*running.node, running.total, running.position, element, k);
      else
        builder_.Assign(running.total, running.fold.step(running.total, element.value));
    }
    KeepForLater(done, k);
    std::string pragma;
    if (by_lanes) {
      if (simd.count("larger") || simd.count("smaller")) builder_.Use("simd_reduce.cuh");
      pragma = "#pragma omp simd";
      for (const auto& [how, totals] : simd) pragma += " reduction(" + how + " : " + totals + ")";
    } else if (has_arg && walk_->team() != Team::kThread) {
      pragma = "#pragma unroll 8";  // loads of later elements do not wait for the comparisons
    }
    CloseRow(pragma);
    for (const Running& running : all)
      Finish(*running.node, running.fold, running.total, running.position);
  }

  // Writes the update of the first (or last) best element. A NaN is better than any number, as in
  // numpy.
  void KeepBest(const Node& reducer, const std::string& best, const std::string& position,
                const Scalar& element, ArrayRef<Expr> k) {
    const bool is_max = reducer.kind == OpKind::kArgMax;
    const bool last = reducer.Int("select_last_index") != 0;
    const std::string compare = std::string(is_max ? ">" : "<") + (last ? "=" : "");
    const CExpr& value = element.value;
    CExpr better = Or(position < CExpr(0), Binary(value, compare, best));
    if (IsFloat(element.dtype))
      better = Or(better, And(NotEqual(value, value), last ? CExpr() : Equal(best, best)));
    const CExpr here = builder_.Write(k[0], CountOf("k", "of its position"));
    builder_.Append(
        Statement::If(better, {Statement::Assign(best, value), Statement::Assign(position, here)}));
  }

  void Finish(const Node& reducer, const Fold& fold, const std::string& total,
              const std::string& position) {
    const Value* result = reducer.result();
    Scalar scalar{total, result->type.dtype};
    if (IsArg(reducer)) {
      scalar.value = BestOfTeam(reducer, total, position);
    } else if (walk_->team() == Team::kWarp) {
      builder_.Use("block_reduce.cuh");
      builder_.Assign(total, Call(Template("WarpReduce", {fold.how}), {total}));
    } else if (walk_->team() == Team::kBlock) {
      builder_.Use("block_reduce.cuh");
      builder_.Assign(total, Call(Template("BlockReduce", {fold.how}),
                                  {total, Scratch(CTypeName(FoldDtype(reducer)))}));
    }
    if (reducer.kind == OpKind::kReduceMean)
      scalar.value = WriteMean(builder_, reducer, total, Product(reduced_), RowWalk::Length());
    lowering_.Bind(result, ResultIndex(reducer), scalar);
  }

  // The position of the best element of the row; `best` and `position` are those of one thread.
  CExpr BestOfTeam(const Node& reducer, const CExpr& best, const CExpr& position) {
    if (walk_->team() == Team::kThread) return position;
    builder_.Use("block_reduce.cuh");
    builder_.Use("block_best.cuh");
    const bool is_warp = walk_->team() == Team::kWarp;
    const CExpr is_max = reducer.kind == OpKind::kArgMax ? "true" : "false";
    const CExpr is_last = reducer.Int("select_last_index") != 0 ? "true" : "false";
    std::vector<CExpr> arguments = {best, position};
    if (!is_warp)
      arguments.push_back(Scratch("Best<" + std::string(CTypeName(FoldDtype(reducer))) + ">"));
    const CExpr how = Template(is_warp ? "WarpBest" : "BlockBest", {is_max, is_last});
    builder_.Assign(position, Call(how, std::move(arguments)).Dot("at"));
    return position;
  }

  // Shared memory for block-wide folds of `type`, one array per type.
  std::string Scratch(const std::string& type) {
    if (auto found = scratch_.find(type); found != scratch_.end()) return found->second;
    const std::string name = builder_.Unique("warp_results");
    const CExpr warps = builder_.expressions().Constant("warps_at_most", 32, "warps of a block");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ " + type), CExpr(name)[warps]));
    return scratch_[type] = name;
  }

  Exprs ResultIndex(const Node& reducer) const {
    if (reducer.kind == OpKind::kMatMul || reducer.Int("keepdims") == 0) return row_index_;
    Exprs index;
    size_t kept = 0;
    for (bool is_reduced : is_reduced_) index.push_back(is_reduced ? Expr(0) : row_index_[kept++]);
    return index;
  }

  void StoreOutputs() {
    const Graph& body = *region_.body;
    std::vector<int> whole_rows, single;
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      const bool per_row = Product(body.outputs[i]->type.shape) == Product(kept_);
      (per_row ? single : whole_rows).push_back(static_cast<int>(i));
    }
    if (!single.empty()) {
      const Expr flat = Linearize(row_index_, kept_, builder_.ranges());
      const bool by_one = walk_->team() != Team::kThread;
      if (by_one) builder_.Open(/*is_branch=*/true);
      for (int output : single) StoreAt(output, flat);
      if (by_one) builder_.CloseIf(Equal(walk_->Member(), 0));
    }
    if (whole_rows.empty()) return;
    const Exprs k = OpenRow();
    const Expr flat = Linearize(FullIndex(k), space_, builder_.ranges());
    for (int output : whole_rows) StoreAt(output, flat);
    CloseRow();
  }

  void StoreAt(int output, const Expr& flat) {
    const Value* value = region_.body->outputs[output];
    const auto index = Delinearize(flat, value->type.shape, builder_.ranges());
    lowering_.Store(output, index, lowering_.Evaluate(value, index));
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  std::vector<const Node*> reducers_;
  Shape space_, kept_, reduced_;
  std::vector<bool> is_reduced_;
  Exprs row_index_;
  std::map<std::string, std::string> scratch_;
  std::optional<RowWalk> walk_;
  std::map<std::string, std::string> arrays_;  // by the local whose value they keep
  int64_t kept_registers_ = 0, most_kept_ = kKeptRegisters;
};

}  // namespace

KernelPlan PlanRowReduction(const Node& region, KernelBuilder& builder) {
  return RowReductionPlanner(region, builder).Plan();
}

}  // namespace fusec
