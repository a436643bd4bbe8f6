#include <algorithm>
#include <unordered_map>

#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/block_pieces.h"
#include "compiler/plan/kept_memory.h"
#include "compiler/plan/kept_rows.h"
#include "compiler/plan/part_names.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kMostRows = 32;  // per block

// A block computes the stages for its rows one after the other, with no barrier between stages that
// do not depend on each other. A thread computes one element at a time, or a vector of consecutive
// elements if there are more elements than threads. In stages that are a single long reduction, a
// warp computes each element.
class BlockProgramPlanner {
 public:
  BlockProgramPlanner(const Node& region, const PlanOptions& options, KernelBuilder& builder)
      : region_(region), options_(options), builder_(builder), lowering_(region, builder) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    serves_ = TryVectors();
    PlanStages();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  // For every loop that may use vectors, in the order in which they are written: whether, with
  // vectors, at least as many loads are vectors as single elements.
  std::vector<bool> TryVectors() const {
    std::vector<IndexSite> sites;
    KernelBuilder trial(builder_, sites);
    BlockProgramPlanner planner(region_, options_, trial);
    planner.is_trial_ = true;
    planner.PlanStages();
    return planner.serves_;
  }

  void PlanStages() {
    const Graph& body = *region_.body;
    std::vector<const Node*> nodes;
    for (const auto& node : body.nodes) nodes.push_back(node.get());
    rows_ = region_.Get<Exprs>("rows");
    const std::function<bool(const Value*)> is_result = [&](const Value* value) {
      return std::find(body.outputs.begin(), body.outputs.end(), value) != body.outputs.end();
    };
    FindStages(nodes, is_result);
    FUSEC_CHECK(!stages_.empty(), "no stages in " + PrintNode(region_));
    schedule_ = ScheduleStages(region_, stages_);
    OpenRows();
    lowering_.OnReducer(
        [this](const Node& reducer, ArrayRef<Expr> index) { return Reduce(reducer, index); });
    const std::vector<BlockPiece>& pieces = schedule_.pieces;
    for (const BlockPiece& piece : pieces) {
      if (piece.run) tables_.Declare(builder_, *piece.run);
    }
    if (HasSharedProducts(stages_)) DeclareBytesOfLaunch(builder_);
    KeepWeights();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool new_phase = i > 0 && pieces[i].phase != pieces[i - 1].phase;
      if (new_phase) {
        if (pieces[i - 1].phase == 0 && !weights_.empty()) builder_.AppendCall("AwaitCopies<0>()");
        builder_.AppendCall("__syncthreads()");
        KeepAllBefore(pieces[i].phase);
        next_thread_ = 0;
      }
      if (i == 0 || new_phase || pieces[i].stage != pieces[i - 1].stage) BeginStage(pieces[i]);
      PlanPiece(pieces[i]);
    }
  }

  void FindStages(ArrayRef<const Node*> nodes, function_ref<bool(const Value*)> is_result) {
    const auto is_weights = [this](const Value* value) {
      return IsKeepableWeights(region_, value) && IsReadAlongDepth(region_, value);
    };
    ByTensorCores by_tensor_cores;
    if (HasTensorCores(options_)) {
      by_tensor_cores.own_matrices = builder_.shape().rows > 1;  // a single row is too little work
      by_tensor_cores.is_weights = is_weights;
    }
    stages_ = FindBlockStages(nodes, rows_, is_result, by_tensor_cores);
    if (!HasSharedProducts(stages_) && KeptBytesWithGaps(region_, stages_, rows_) > kMostKeptBytes)
      stages_ = FindBlockStages(nodes, rows_, is_result);
  }

  // Assigns each stage its place in dynamic shared memory.
  void PlaceStages() {
    const auto bytes_of = [&](const Value* value) {
      return IsKeepableWeights(region_, value)
                 ? KeptBytes(value, PlaceKeptWeights(region_, value))
                 : rows_per_block_ * KeptBytes(value, KeptPlaceOf(value));
    };
    memory_ = PlaceInMemory(schedule_, stages_, bytes_of);
    if (memory_.bytes > options_.gpu->block_shared_bytes) {
      has_vector_gaps_ = false;
      memory_ = PlaceInMemory(schedule_, stages_, bytes_of);
    }
    FUSEC_CHECK(memory_.bytes <= options_.gpu->block_shared_bytes,
                "too little shared memory for " + PrintNode(region_));
    builder_.plan().shared_bytes = static_cast<int>(memory_.bytes);
  }
  RegionLowering::KeptRows KeptPlaceOf(const Value* value) const {
    return PlaceKeptRows(region_, value, rows_, has_vector_gaps_,
                         IsMatrixOfTensorCores(stages_, value));
  }

  // Starts asynchronous copies to shared memory of the weights of products after the first barrier,
  // before waiting for earlier kernels. Threads can read any columns of them there efficiently.
  void KeepWeights() {
    if (!HasTensorCores(options_)) return;
    for (const BlockStage& stage : stages_) {
      if (!stage.weights || kept_.count(stage.weights) > 0) continue;
      const Value* outside = lowering_.Outside(stage.weights);
      const bool is_rounded = IsKeptRounded(stage.weights, options_.matmul_precision);
      KeepOne(stage.weights, is_rounded ? CExpr(builder_.InLayout(outside, WeightLayout::kTf32))
                                        : builder_.Buffer(outside));
    }
    int64_t bytes = rows_per_block_ * KeptBytesWithGaps(region_, stages_, rows_) + memory_.bytes;
    for (const BlockPiece& piece : schedule_.pieces) {
      if (piece.phase == 0 || piece.stage->by_tensor_cores) continue;
      schedule_.VisitMadeFrom(piece, [&](const Value* value) {
        if (!IsKeepableWeights(region_, value) || kept_.count(value) > 0) return;
        const int64_t more = KeptBytes(value, PlaceKeptWeights(region_, value));
        if (bytes + more > kMostKeptBytes) return;
        bytes += more;
        KeepOne(value, builder_.Buffer(lowering_.Outside(value)));
      });
    }
    if (weights_.empty()) return;
    builder_.AppendCall("CloseCopies()");
    builder_.Append(Statement::Await());
  }

  void KeepOne(const Value* weights, const CExpr& buffer) {
    RegionLowering::KeptRows kept = PlaceKeptWeights(region_, weights);
    builder_.Blank();
    DeclareKeptRows(builder_, weights, /*rows_per_block=*/{}, memory_.PlaceOf(weights), kept);
    builder_.Comment("Copy " + ModelName(weights->name) + " asynchronously.");
    CopyKeptWeights(builder_, weights, buffer, kept, LanesName(KeptLanes(weights)));
    kept_[weights] = kept;
    weights_.push_back(weights);
  }

  // How many elements the next loop processes at once, if it could process `lanes`.
  int64_t LanesOfLoop(int64_t lanes) {
    return lanes > 1 && (is_trial_ || serves_[loops_++]) ? lanes : 1;
  }
  // Opens a loop over the lanes of `vector`; returns the position of the lane's element.
  Expr OpenLanes(const Expr& vector, int64_t lanes) {
    if (const auto symbol = vector.AsSymbol())
      builder_.expressions().NameFactor(WordOfSymbol(*symbol), lanes, LanesName(lanes));
    builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", LanesName(lanes)});
    return vector * lanes + Variable("lane");
  }
  // `before` and `after` are the loads up to the beginning and the end of the loop.
  void CloseLanes(const RegionLowering::Loads& before, const RegionLowering::Loads& after) {
    builder_.CloseLanes();
    const int vectors = after.of_vectors - before.of_vectors;
    if (is_trial_) serves_.push_back(vectors > 0 && vectors >= after.of_lanes - before.of_lanes);
  }
  CExpr LanesName(int64_t count) {
    return builder_.expressions().Constant("lanes", count,
                                           "elements that a thread accesses at once");
  }

  CExpr RowsPerBlock() {
    return builder_.expressions().Constant("rows_per_block", rows_per_block_, "rows per block");
  }

  CExpr SeveralRows() { return rows_per_block_ > 1 ? RowsPerBlock() : CExpr(); }

  // Chooses as many rows as occupy the block's threads, or as the launch shape requests, if they
  // fit in shared memory.
  void OpenRows() {
    int64_t widest = 1;
    for (const BlockStage& stage : stages_)
      widest = std::max(widest, ElementsPerRow(stage.value, rows_));
    const int block_size = GpuBlockSize(builder_);
    while (rows_per_block_ < kMostRows &&
           (rows_per_block_ * widest < block_size || rows_per_block_ < builder_.shape().rows) &&
           2 * rows_per_block_ * KeptBytesPerRow(stages_, rows_) <= kMostKeptBytes) {
      rows_per_block_ *= 2;
    }
    has_vector_gaps_ =
        HasSharedProducts(stages_) ||
        rows_per_block_ * KeptBytesWithGaps(region_, stages_, rows_) <= kMostKeptBytes;
    KernelPlan& plan = builder_.plan();
    const Expr rows = Product(rows_);
    plan.block_size = block_size;
    if (HasSharedProducts(stages_)) {
      PlaceStages();
      ShareMultiprocessor(*options_.gpu, builder_.shape().block_size == 0, plan);
    }
    plan.blocks = CeilDiv(rows, rows_per_block_, builder_.ranges());
    plan.launch_in_words = "a block computes " + std::to_string(rows_per_block_) + " rows";
    if (rows_per_block_ == 1) {
      plan.launch_in_words = "one block per row";
      builder_.AppendLet("row", BlockNumber(builder_));
      builder_.DefineVariable("row", 0, rows - 1);
      lowering_.SetRowInBlock(0);
      row_index_ = Coordinates(builder_, Variable("row"), rows_, "row");
      return;
    }
    builder_.AppendLet("first_row", BlockNumber(builder_) * RowsPerBlock());
    builder_.DefineVariable("first_row", 0, rows - 1);
    const CExpr all = builder_.Write(rows, CountOf("rows", "rows of the results"));
    builder_.AppendLet("rows_here", Min(WriteSize(builder_, RowsPerBlock()), all - "first_row"));
    builder_.DefineVariable("rows_here", 1, rows_per_block_);
  }

  // Writes a comment on the ops from a piece on, and declares the arrays that keep its results.
  void BeginStage(const BlockPiece& first) {
    const BlockStage& stage = *first.stage;
    builder_.Blank();
    DeclareKept(stage);
    const std::string& name = stage.value->name;
    const std::string words = schedule_.Words(first);
    builder_.Comment(words == FriendlyName(name) ? words : ModelName(name) + ": " + words);
  }

  void DeclareKept(const BlockStage& stage) {
    if (stage.kept && kept_.count(stage.value) == 0) {
      RegionLowering::KeptRows& kept = kept_[stage.value];
      kept = KeptPlaceOf(stage.value);
      DeclareKeptRows(builder_, stage.value, SeveralRows(), memory_.PlaceOf(stage.value), kept);
    }
    for (const BlockStage::Part& part : stage.parts) DeclareKept(StageOf(stages_, part.concat));
  }

  // From now on, values that were computed before `phase` are read from shared memory.
  void KeepAllBefore(int phase) {
    for (const BlockStage& stage : stages_) {
      if (stage.kept && schedule_.phases.at(stage.value) < phase)
        lowering_.Keep(stage.value, kept_.at(stage.value));
    }
    for (const Value* weights : weights_) lowering_.Keep(weights, kept_.at(weights));
  }

  void PlanPiece(const BlockPiece& piece) {
    const BlockStage& stage = *piece.stage;
    if (!stage.by_tensor_cores) {
      warps_ = UsesWarps(stage);
      PlanLoop(piece);
      return;
    }
    const Node& product = *stage.value->producer;
    PlanKeptProduct(product, kept_.at(product.operand(0)), kept_.at(product.operand(1)),
                    kept_.at(stage.value), SeveralRows(), options_.matmul_precision, builder_);
  }

  void PlanLoop(const BlockPiece& piece) {
    const BlockStage& stage = *piece.stage;
    const auto lead = static_cast<int64_t>(rows_.size());
    const Shape& shape = piece.value->type.shape;
    Shape inner(shape.begin() + lead, shape.end());
    if (piece.run) inner.insert(inner.begin(), Expr(piece.run->count));
    const std::string name = ModelName(stage.value->name);
    const std::string part = ModelName(piece.value->name);
    const int64_t lanes = LanesOfLoop(PossibleLanes(piece, inner));
    if (lanes > 1) inner.back() = FloorDiv(inner.back(), lanes, builder_.ranges());
    const int64_t elements = *Product(inner).AsConstant();  // elements, or vectors
    const SizeNames names =
        part_names_.Row(piece.value, rows_.size(), lanes, lanes > 1 ? LanesName(lanes) : CExpr(),
                        piece.run ? piece.run->count : 1);
    const CExpr size = builder_.Write(Expr(elements), names);
    const CExpr total = rows_per_block_ == 1 ? size
                        : elements == 1      ? "rows_here"
                                             : "rows_here" * size;
    const CExpr thread = "threadIdx.x", block = BlockSizeName(builder_);
    const CExpr first = warps_ ? thread / WarpSize() : thread;
    const CExpr step = warps_ ? block / WarpSize() : block;
    // No loop is needed if there are enough threads for all elements.
    const int teams = builder_.plan().block_size / (warps_ ? kWarpSize : 1);
    const bool once = rows_per_block_ * elements <= teams;
    const CExpr first_thread =
        once && !warps_ ? TakeThreads(rows_per_block_ * elements, part) : CExpr();
    builder_.Open(/*is_branch=*/once);
    if (once) builder_.AppendLet("i", first_thread.empty() ? first : first - first_thread);
    builder_.DefineVariable("i", 0, Expr(rows_per_block_ * elements) - 1);
    Exprs index = ElementIndex(inner, elements, name, names);
    Expr offset = piece.offset;
    if (piece.run) {
      offset = offset + LocalVariable(kPartVariable, index[lead], piece.run->count, names) *
                            shape[piece.axis];
      index.erase(index.begin() + lead);
      tables_.DefinePart(builder_, *piece.run);
    }
    if (lanes > 1) index.back() = OpenLanes(index.back(), lanes);
    RegionLowering of_parts(piece.run ? *piece.run->region : region_, builder_);
    RegionLowering& lowering = piece.run ? of_parts : lowering_;
    const RegionLowering::Loads before = lowering.loads();
    const Scalar scalar = lowering.Evaluate(piece.run ? piece.run->output : piece.value, index);
    const RegionLowering::Loads after = lowering.loads();
    index[piece.axis] = index[piece.axis] + offset;
    if (warps_) builder_.Open(/*is_branch=*/true);
    StoreStage(stage, index, scalar, piece.axis, piece.offset, part);
    if (lanes > 1) CloseLanes(before, after);
    if (warps_) builder_.CloseIf(Equal(thread % WarpSize(), 0));
    if (once)
      builder_.CloseIf(IsAmong(first, first_thread, total));
    else
      builder_.CloseFor(LoopHeader(builder_, "i", first, total, step));
  }

  // Whether `thread` is one of `count` threads from `begin` on (empty: from the block's first on).
  static CExpr IsAmong(const CExpr& thread, const CExpr& begin, const CExpr& count) {
    if (count.Is(1)) return Equal(thread, begin.empty() ? 0 : begin);
    return begin.empty() ? thread < count : And(thread >= begin, thread < begin + count);
  }

  // How many consecutive elements a thread may compute at once in a piece of `inner` elements per
  // row; 1 if there are enough threads for all elements.
  int64_t PossibleLanes(const BlockPiece& piece, ShapeRef inner) const {
    const int64_t lanes = KeptLanes(piece.stage->value);
    const bool sums = !piece.stage->inlined.empty() && !piece.run;
    if (sums || inner.empty() || !IsMultiple(inner.back(), lanes)) return 1;
    const int64_t elements = rows_per_block_ * *Product(inner).AsConstant();
    const int block_size = builder_.plan().block_size;
    if (elements <= block_size) return 1;
    // With tables, two vectors share an index if there are more than twice as many as threads.
    const bool two =
        piece.run && elements > lanes * block_size && IsMultiple(inner.back(), 2 * lanes);
    return two ? 2 * lanes : lanes;
  }

  // Assigns `count` threads to a loop, if possible other ones than to the phase's earlier loops, so
  // that their warps wait for memory together. Returns the first one; empty for the block's first.
  CExpr TakeThreads(int64_t count, const std::string& part) {
    const int64_t first = next_thread_;
    if (first + count > builder_.plan().block_size) return {};
    next_thread_ = (first + count + kWarpSize - 1) / kWarpSize * kWarpSize;
    if (first == 0) return {};
    return builder_.expressions().Constant(part + "_first_thread", first,
                                           "of those that compute \"" + part + "\"");
  }

  CExpr WarpSize() { return builder_.expressions().Constant("warp_size", kWarpSize, "threads"); }

  // The full index of element `i` of the block: the coordinates of its row, then those in the row.
  Exprs ElementIndex(ShapeRef inner, int64_t elements, const std::string& name,
                     const SizeNames& names) {
    Expr element = Variable("i");
    if (rows_per_block_ > 1) {
      Expr row_in_block = element;
      if (elements > 1) {
        row_in_block = LocalVariable("row_in_block", FloorDiv(element, elements, builder_.ranges()),
                                     rows_per_block_, names);
        element = element - row_in_block * elements;
      } else {
        element = 0;
      }
      lowering_.SetRowInBlock(row_in_block);
      LocalVariable("row", Variable("first_row") + row_in_block, Product(rows_), names);
      if (elements > 1) element = LocalVariable("element", element, elements, names);
    } else if (elements == 1) {
      element = 0;
    }
    Exprs index =
        rows_per_block_ == 1 ? row_index_ : Coordinates(builder_, Variable("row"), rows_, "row");
    for (const Expr& coordinate : Coordinates(builder_, element, inner, name, names))
      index.push_back(coordinate);
    return index;
  }

  // Declares a local `name` in the open scope, with 0 <= value < `extent`.
  Expr LocalVariable(const std::string& name, const Expr& value, const Expr& extent,
                     const SizeNames& names) {
    builder_.AppendLet(name, builder_.Write(value, names));
    return builder_.DefineVariable(name, 0, extent - 1);
  }

  // How many terms of a sum over `dims` a thread may process at once.
  int64_t PossibleLanes(const Node& reducer, ShapeRef dims) const {
    const int64_t lanes = KeptLanes(reducer.operand(0));
    if (dims.size() != 1 || !IsMultiple(dims[0], lanes)) return 1;
    return !warps_ || *dims[0].AsConstant() >= lanes * kWarpSize ? lanes : 1;
  }

  // Writes the loop of a matmul or reduction for element `index` of its result.
  Scalar Reduce(const Node& reducer, ArrayRef<Expr> index) {
    const Value* result = reducer.result();
    const Dtype dtype = FoldDtype(reducer);
    const Fold fold = FoldOf(reducer.kind, dtype);
    const bool is_mean = reducer.kind == OpKind::kReduceMean;
    const std::string total = builder_.Unique(ModelName(result->name) + (is_mean ? "_sum" : ""));
    builder_.Declare(CTypeName(dtype), total, fold.start);
    const bool is_matmul = reducer.kind == OpKind::kMatMul;
    const Shape dims = is_matmul ? Shape{MatMulDepth(reducer)} : ReducedDims(reducer);
    const Expr length = Product(dims);
    const SizeNames names = LengthOf(reducer);
    const int64_t lanes = LanesOfLoop(PossibleLanes(reducer, dims));
    const Expr steps = FloorDiv(length, lanes, builder_.ranges());
    const CExpr count =
        builder_.Write(steps, lanes == 1 ? names : LengthOf(reducer, LanesName(lanes)));
    const Statement header =
        warps_ ? LoopHeader(builder_, "k", "threadIdx.x" % WarpSize(), count, WarpSize())
               : LoopHeader(builder_, "k", 0, count);
    builder_.Open();
    builder_.DefineVariable("k", 0, steps - 1);
    const RegionLowering::Loads before = lowering_.loads();
    const Exprs k = lanes > 1 ? Exprs{OpenLanes(Variable("k"), lanes)}
                              : Coordinates(builder_, Variable("k"), dims, "k");
    CExpr term;
    if (is_matmul) {
      const auto factor = [&](int side) {
        return lowering_.Evaluate(reducer.operand(side),
                                  MatMulOperandIndex(reducer, side, index, k[0]));
      };
      const Scalar a = factor(0), b = factor(1);
      term = a.value * b.value;
    } else {
      term = lowering_.Evaluate(reducer.operand(0), ReductionOperandIndex(reducer, index, k)).value;
    }
    if (fold.calls_how) builder_.Use("block_reduce.cuh");
    builder_.Assign(total, fold.step(total, term));
    if (lanes > 1) CloseLanes(before, lowering_.loads());
    builder_.CloseFor(header);
    if (warps_) {
      builder_.Use("block_reduce.cuh");
      builder_.Assign(total, Call(Template("WarpReduce", {fold.how}), {total}));
    }
    return {is_mean ? WriteMean(builder_, reducer, total, length, names) : total,
            result->type.dtype};
  }

  // Stores an element of a stage in all arrays and results that hold it. It belongs to `part`,
  // which begins at `start` along `axis`.
  void StoreStage(const BlockStage& stage, ArrayRef<Expr> index, const Scalar& scalar, int64_t axis,
                  const Expr& start, const std::string& part) {
    Exprs offset(stage.value->type.rank(), 0);
    if (!start.IsConstant(0)) offset[axis] = start;
    if (stage.kept)
      lowering_.StoreKept(stage.value, kept_.at(stage.value), index, scalar,
                          PlaceInKept(stage.value, offset, part));
    for (const BlockStage::Part& place : stage.parts) {
      Exprs at = IndexBehind(place.views, index, builder_.ranges());
      const int64_t along = place.concat->producer->Int("axis");
      at[along] = at[along] + StartOf(place);
      StoreStage(StageOf(stages_, place.concat), at, scalar, along, StartOf(place), part);
    }
    for (const BlockStage::Stored& stored : stage.stored) {
      const auto& outputs = region_.body->outputs;
      const auto place = std::find(outputs.begin(), outputs.end(), stored.result);
      const int output = static_cast<int>(place - outputs.begin());
      lowering_.Store(output, IndexBehind(stored.views, index, builder_.ranges()), scalar,
                      PlaceOfPart(builder_, region_.result(output),
                                  IndexBehind(stored.views, offset, builder_.ranges()), part));
    }
  }

  // The name of the position at which `part` begins in the rows of a kept value.
  std::vector<SizeName> PlaceInKept(const Value* value, ArrayRef<Expr> offset,
                                    const std::string& part) {
    const RegionLowering::KeptRows& kept = kept_.at(value);
    const auto place = lowering_.PlaceInRow(value, kept, offset).AsConstant();
    if (!place || *place <= 1) return {};
    return {{*place, part + "_place", "where \"" + part + "\" begins in " + kept.array}};
  }

  const Node& region_;
  const PlanOptions& options_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  std::unordered_map<const Value*, RegionLowering::KeptRows> kept_;  // of the stages so far
  std::vector<const Value*> weights_;                                // kept in shared memory
  int64_t next_thread_ = 0;  // after those of the phase's earlier loops
  Shape rows_;
  std::vector<BlockStage> stages_;
  BlockSchedule schedule_;
  KeptMemory memory_;  // for products by weights on tensor cores
  PartTables tables_;
  const PartNames part_names_{region_, builder_};
  int64_t rows_per_block_ = 1;
  bool has_vector_gaps_ = false;
  bool is_trial_ = false;
  std::vector<bool> serves_;  // by loop that may use vectors: whether it does
  size_t loops_ = 0;          // the number of such loops so far
  bool warps_ = false;        // each sum of the open stage is computed by a warp
  Exprs row_index_;           // if a block computes one row
};

}  // namespace

KernelPlan PlanBlockProgram(const Node& region, const PlanOptions& options,
                            KernelBuilder& builder) {
  return BlockProgramPlanner(region, options, builder).Plan();
}

}  // namespace fusec
