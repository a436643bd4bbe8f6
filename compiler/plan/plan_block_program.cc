#include <algorithm>

#include "compiler/ops/c_text.h"
#include "compiler/plan/block_stages.h"
#include "compiler/plan/fold.h"
#include "compiler/plan/kept_rows.h"
#include "compiler/plan/part_run.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kWarpSize = 32;
constexpr int64_t kMostRows = 32;  // of a block

// Stage after stage for the rows of a block. A thread makes one element at a time, or a vector of
// neighbours where there are more than threads; where a stage has few elements but long sums, a
// warp makes one. Sums take their terms vector by vector where these lie together.
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
  // For every loop that may take vectors, in the order in which they are written, whether more
  // loads are vectors then than single elements of other places.
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
    rows_ = region_.Get<std::vector<Expr>>("rows");
    const std::function<bool(const Value*)> is_result = [&](const Value* value) {
      return std::find(body.outputs.begin(), body.outputs.end(), value) != body.outputs.end();
    };
    stages_ = FindBlockStages(nodes, rows_, is_result, HasTensorCores(options_));
    if (KeptBytesWithGaps(region_, stages_, rows_) > kMostKeptBytes ||
        !KeepsLinesTogether(region_, stages_, rows_))
      stages_ = FindBlockStages(nodes, rows_, is_result);
    FUSEC_CHECK(!stages_.empty(), "no stages in " + PrintNode(region_));
    OpenRows();
    lowering_.OnReducer([this](const Node& reducer, const std::vector<Expr>& index) {
      return Reduce(reducer, index);
    });
    for (const BlockStage& stage : stages_) {
      PlanStage(stage);
      const bool last = &stage == &stages_.back();
      if (!last) builder_.AppendCall("__syncthreads()");
    }
  }

  // How many neighbours the next loop takes at once, which could take `lanes`.
  int64_t LanesOfLoop(int64_t lanes) {
    return lanes > 1 && (is_trial_ || serves_[loops_++]) ? lanes : 1;
  }
  // The place in a loop over vectors where the first is number `vector`.
  Expr OpenLanes(const Expr& vector, int64_t lanes) {
    if (const auto symbol = vector.AsSymbol())
      builder_.expressions().NameFactor(*symbol, lanes, LanesName(lanes));
    builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", LanesName(lanes)});
    return vector * lanes + Expr::Symbol("lane");
  }
  // `before` and `after`: loads up to the loop's beginning and end.
  void CloseLanes(const RegionLowering::Loads& before, const RegionLowering::Loads& after) {
    builder_.CloseLanes();
    const int vectors = after.of_vectors - before.of_vectors;
    if (is_trial_) serves_.push_back(vectors > 0 && vectors >= after.of_lanes - before.of_lanes);
  }
  const std::string& LanesName(int64_t count) {
    return builder_.expressions().OwnConstant("lanes", count,
                                              "neighbours that a thread takes at once");
  }

  const std::string& RowsPerBlock() {
    return builder_.expressions().OwnConstant("rows_per_block", rows_per_block_,
                                              "rows that a block owns");
  }

  // Enough rows to occupy the block's threads, or as many as are wanted, if its shared memory holds
  // them.
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
        rows_per_block_ * KeptBytesWithGaps(region_, stages_, rows_) <= kMostKeptBytes;
    KernelPlan& plan = builder_.plan();
    const Expr rows = Product(rows_);
    NameCount(builder_, rows, "rows", "of the results");
    plan.block_size = block_size;
    plan.blocks = CeilDiv(rows, rows_per_block_, builder_.ranges());
    plan.launch_in_words = rows_per_block_ == 1
                               ? "one block per row"
                               : "a block owns " + std::to_string(rows_per_block_) + " rows";
    if (rows_per_block_ == 1) {
      builder_.AppendLet("row", BlockNumber(builder_));
      builder_.DefineVariable("row", 0, rows - 1);
      lowering_.SetRowInBlock(0);
      row_index_ = Coordinates(builder_, Expr::Symbol("row"), rows_, "row");
      return;
    }
    builder_.AppendLet("first_row", BlockNumber(builder_) + " * " + RowsPerBlock());
    builder_.DefineVariable("first_row", 0, rows - 1);
    builder_.AppendLet("rows_here", "min(" + WriteSize(builder_, RowsPerBlock()) + ", " +
                                        builder_.Write(rows) + " - first_row)");
    builder_.DefineVariable("rows_here", 1, rows_per_block_);
  }

  // Whether warps share out the sums of this stage: it has too few elements for the threads of a
  // block.
  bool UsesWarps(const BlockStage& stage) const {
    if (stage.inlined.size() != 1 || stage.inlined[0]->kind == OpKind::kMatMul ||
        stage.value->producer->kind == OpKind::kConcat)
      return false;
    const auto length = Product(ReducedDims(*stage.inlined[0])).AsConstant();
    return length && *length >= kWarpSize;
  }

  void PlanStage(const BlockStage& stage) {
    const std::string name = FriendlyName(stage.value->name);
    builder_.Blank();
    RegionLowering::KeptRows kept = PlaceKeptRows(region_, stage.value, rows_, has_vector_gaps_);
    if (stage.kept)
      DeclareKeptRows(builder_, stage.value, rows_per_block_ > 1 ? RowsPerBlock() : "", kept);
    const std::string words = Words(stage);
    builder_.Comment(words == name ? words : name + ": " + words);
    if (stage.by_tensor_cores) {
      const Node& product = *stage.value->producer;
      PlanKeptProduct(product, kept_.at(product.operand(0)), kept_.at(product.operand(1)), kept,
                      rows_per_block_ == 1 ? "1" : "rows_here", options_.matmul_precision,
                      builder_);
    } else {
      warps_ = UsesWarps(stage);
      for (Segment& segment : SegmentsOf(stage)) PlanSegment(stage, segment, kept, name);
    }
    if (stage.kept) lowering_.Keep(stage.value, kept);
    kept_[stage.value] = kept;
  }

  // Elements of a stage that one loop makes: all of them, a part of a concatenation, or a run of
  // alike parts.
  struct Segment {
    const Value* value;  // the first part
    int64_t axis = 0;    // along which `offset` counts
    Expr offset;
    std::shared_ptr<PartRun> run;
  };

  std::vector<Segment> SegmentsOf(const BlockStage& stage) {
    const Node& producer = *stage.value->producer;
    if (producer.kind != OpKind::kConcat) return {{stage.value, 0, 0, nullptr}};
    const int64_t axis = producer.Int("axis");
    const std::vector<const Value*> parts(producer.operands.begin(), producer.operands.end());
    std::vector<Segment> segments;
    Expr offset = 0;
    for (size_t k = 0; k < parts.size();) {
      Segment segment{parts[k], axis, offset, nullptr};
      auto run = FindPartRun(region_, {parts.begin() + static_cast<int64_t>(k), parts.end()});
      if (run && StandsAlone(*run)) {
        segment.run = std::make_shared<PartRun>(std::move(*run));
        tables_.Declare(builder_, *segment.run);
      }
      segments.push_back(segment);
      for (int taken = segment.run ? segment.run->count : 1; taken > 0; --taken, ++k)
        offset = offset + parts[k]->type.shape[axis];
    }
    return segments;
  }

  // Whether a run is made from what comes from outside alone.
  bool StandsAlone(const PartRun& run) const {
    std::vector<const Value*> work = {run.output};
    std::set<const Value*> seen;
    while (!work.empty()) {
      const Value* value = work.back();
      work.pop_back();
      if (!value || !value->producer || !seen.insert(value).second) continue;
      const bool is_stage = std::any_of(stages_.begin(), stages_.end(), [&](const auto& stage) {
        return stage.value->name == value->name;
      });
      if (is_stage || IsReducer(*value->producer)) return false;
      for (const Value* operand : value->producer->operands) work.push_back(operand);
    }
    return true;
  }

  void PlanSegment(const BlockStage& stage, const Segment& segment,
                   const RegionLowering::KeptRows& kept, const std::string& name) {
    const auto lead = static_cast<int64_t>(rows_.size());
    const Shape& shape = segment.value->type.shape;
    Shape inner(shape.begin() + lead, shape.end());
    if (segment.run) inner.insert(inner.begin(), Expr(segment.run->count));
    const std::string part = FriendlyName(segment.value->name);
    const int64_t lanes = LanesOfLoop(PossibleLanes(stage, segment, inner));
    if (lanes > 1) inner.back() = FloorDiv(inner.back(), lanes, builder_.ranges());
    const int64_t elements = *Product(inner).AsConstant();  // or vectors
    if (lanes > 1)
      NameVectors(inner, lanes, part);
    else
      builder_.expressions().NameConstant(elements, part + "_elements",
                                          "of one row of \"" + part + "\"");
    NameStrides(builder_, part, shape);
    NamePlaces(stage, segment, kept);
    const std::string size = builder_.Write(Expr(elements));
    const std::string total = rows_per_block_ == 1 ? size
                              : elements == 1      ? "rows_here"
                                                   : "rows_here * " + size;
    const std::string first = warps_ ? "threadIdx.x / " + WarpSize() : "threadIdx.x";
    const std::string step = BlockSizeName(builder_) + (warps_ ? " / " + WarpSize() : "");
    // A loop, unless there are threads for everything.
    const int teams = builder_.plan().block_size / (warps_ ? kWarpSize : 1);
    const bool once = rows_per_block_ * elements <= teams;
    builder_.Open(/*is_branch=*/once);
    if (once) builder_.AppendLet("i", first);
    builder_.DefineVariable("i", 0, Expr(rows_per_block_ * elements) - 1);
    std::vector<Expr> index = ElementIndex(inner, elements, name);
    Expr offset = segment.offset;
    if (segment.run) {
      offset = offset +
               LocalVariable(kPartVariable, index[lead], segment.run->count) * shape[segment.axis];
      index.erase(index.begin() + lead);
      tables_.DefinePart(builder_, *segment.run);
    }
    if (lanes > 1) index.back() = OpenLanes(index.back(), lanes);
    RegionLowering of_parts(segment.run ? *segment.run->region : region_, builder_);
    RegionLowering& lowering = segment.run ? of_parts : lowering_;
    const RegionLowering::Loads before = lowering.loads();
    const Scalar scalar =
        lowering.Evaluate(segment.run ? segment.run->output : segment.value, index);
    const RegionLowering::Loads after = lowering.loads();
    index[segment.axis] = index[segment.axis] + offset;
    if (warps_) builder_.Open(/*is_branch=*/true);
    if (stage.kept) lowering_.StoreKept(stage.value, kept, index, scalar);
    StoreResults(stage, index, scalar);
    if (lanes > 1) CloseLanes(before, after);
    if (warps_) {
      builder_.Append({Statement::Kind::kIf,
                       "",
                       "",
                       "threadIdx.x % " + WarpSize() + " == 0",
                       builder_.Close(),
                       {}});
    }
    if (once) {
      const std::string condition = total == "1" ? first + " == 0" : first + " < " + total;
      builder_.Append({Statement::Kind::kIf, "", "", condition, builder_.Close(), {}});
    } else {
      builder_.CloseFor(LoopHeader(builder_, "i", first, total, step));
    }
  }

  // How many vectors a row of a segment has, and those between neighbours on each axis.
  void NameVectors(const Shape& vectors, int64_t lanes, const std::string& part) {
    Expr count = 1;
    for (size_t axis = vectors.size(); axis-- > 0;) {
      count = count * vectors[axis];
      const std::string each = LanesName(lanes) + " elements each, ";
      if (axis == 0)
        builder_.expressions().NameConstant(*count.AsConstant(), part + "_vectors",
                                            each + "of one row of \"" + part + "\"");
      else
        builder_.expressions().SuggestName(
            *count.AsConstant(), part + "_vectors_" + std::to_string(axis - 1),
            each + "per step of axis " + std::to_string(axis - 1) + " of \"" + part + "\"");
    }
  }

  // How many neighbours a thread may make at once in a segment of `inner` elements of each row: 1
  // if there are threads for all of them.
  int64_t PossibleLanes(const BlockStage& stage, const Segment& segment, const Shape& inner) const {
    const int64_t lanes = KeptLanes(stage.value);
    const bool sums = !stage.inlined.empty() && !segment.run;
    if (sums || inner.empty() || !IsMultiple(inner.back(), lanes)) return 1;
    return rows_per_block_ * *Product(inner).AsConstant() > builder_.plan().block_size ? lanes : 1;
  }

  // Where the elements of a segment begin in what is kept and in the results.
  void NamePlaces(const BlockStage& stage, const Segment& segment,
                  const RegionLowering::KeptRows& kept) {
    if (segment.offset.IsConstant(0)) return;
    const std::string part = FriendlyName(segment.value->name);
    std::vector<Expr> offset(stage.value->type.rank(), 0);
    offset[segment.axis] = segment.offset;
    if (stage.kept) {
      lowering_.SetRowInBlock(0);
      const auto place = lowering_.PositionInRows(stage.value, kept, offset).AsConstant();
      if (place)
        builder_.expressions().NameOffset(*place, part + "_place",
                                          "where \"" + part + "\" begins in " + kept.array);
    }
    for (const BlockStage::Stored& stored : stage.stored) {
      const auto& outputs = region_.body->outputs;
      const auto place = std::find(outputs.begin(), outputs.end(), stored.result);
      NamePlace(builder_, region_.result(static_cast<int>(place - outputs.begin())),
                IndexBehind(stored.views, offset, builder_.ranges()), part);
    }
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
    builder_.AppendLet(name, builder_.Write(value));
    builder_.DefineVariable(name, 0, extent - 1);
    return Expr::Symbol(name);
  }

  // How many terms of a sum over `dims` a thread may take at once.
  int64_t PossibleLanes(const Node& reducer, const Shape& dims) const {
    const int64_t lanes = KeptLanes(reducer.operand(0));
    if (dims.size() != 1 || !IsMultiple(dims[0], lanes)) return 1;
    return !warps_ || *dims[0].AsConstant() >= lanes * kWarpSize ? lanes : 1;
  }

  // The loop of a matmul or reduction for element `index` of its result.
  Scalar Reduce(const Node& reducer, const std::vector<Expr>& index) {
    const Value* result = reducer.result();
    const Dtype dtype = FoldDtype(reducer);
    const Fold fold = FoldOf(reducer.kind, dtype);
    const bool is_mean = reducer.kind == OpKind::kReduceMean;
    const std::string total = builder_.Unique(FriendlyName(result->name) + (is_mean ? "_sum" : ""));
    builder_.Declare(CTypeName(dtype), total, fold.start);
    const bool is_matmul = reducer.kind == OpKind::kMatMul;
    const Shape dims = is_matmul ? Shape{MatMulDepth(reducer)} : ReducedDims(reducer);
    const Expr length = Product(dims);
    const Value* row = reducer.operand(0);
    if (!is_matmul && reducer.Ints("axes") == std::vector<int64_t>{row->type.rank() - 1})
      builder_.expressions().NameConstant(*length.AsConstant(),
                                          FriendlyName(row->name) + "_columns",
                                          "last axis of \"" + FriendlyName(row->name) + "\"");
    else
      builder_.expressions().NameConstant(
          *length.AsConstant(), FriendlyName(result->name) + "_depth", "terms of its sum");
    const int64_t lanes = LanesOfLoop(PossibleLanes(reducer, dims));
    const Expr steps = FloorDiv(length, lanes, builder_.ranges());
    const std::string count =
        lanes == 1 ? builder_.Write(steps)
                   : builder_.expressions().OwnConstant(
                         FriendlyName(result->name) + "_depth_vectors", *steps.AsConstant(),
                         LanesName(lanes) + " terms each, of its sum");
    const std::string header =
        warps_ ? LoopHeader(builder_, "k", "threadIdx.x % " + WarpSize(), count, WarpSize())
               : LoopHeader(builder_, "k", "0", count);
    builder_.Open();
    builder_.DefineVariable("k", 0, steps - 1);
    const RegionLowering::Loads before = lowering_.loads();
    const std::vector<Expr> k = lanes > 1 ? std::vector<Expr>{OpenLanes(Expr::Symbol("k"), lanes)}
                                          : Coordinates(builder_, Expr::Symbol("k"), dims, "k");
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
    if (fold.calls_how) builder_.Use("block_reduce.cuh");
    builder_.Assign(total, fold.step(total, term));
    if (lanes > 1) CloseLanes(before, lowering_.loads());
    builder_.CloseFor(header);
    if (warps_) {
      builder_.Use("block_reduce.cuh");
      builder_.Assign(total, "WarpReduce<" + fold.how + ">(" + total + ")");
    }
    return {is_mean ? WriteMean(builder_, reducer, total, length) : total, result->type.dtype};
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
  const PlanOptions& options_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  std::map<const Value*, RegionLowering::KeptRows> kept_;  // of the stages so far
  Shape rows_;
  std::vector<BlockStage> stages_;
  PartTables tables_;
  int64_t rows_per_block_ = 1;
  bool has_vector_gaps_ = false;
  bool is_trial_ = false;
  std::vector<bool> serves_;     // by loop that may take vectors: whether it does
  size_t loops_ = 0;             // of these so far
  bool warps_ = false;           // the open stage's sums are shared out among the threads of a warp
  std::vector<Expr> row_index_;  // where a block owns one row
};

}  // namespace

KernelPlan PlanBlockProgram(const Node& region, const PlanOptions& options,
                            KernelBuilder& builder) {
  return BlockProgramPlanner(region, options, builder).Plan();
}

}  // namespace fusec
