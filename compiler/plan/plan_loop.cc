#include <algorithm>

#include "compiler/plan/part_names.h"
#include "compiler/plan/part_run.h"
#include "compiler/plan/plan_region.h"
#include "compiler/plan/pooled_lanes.h"
#include "compiler/region/stack_parts.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kFewElements = 1 << 15;   // less than half a wave of threads on a large GPU
constexpr int64_t kMostRowsOfBlock = 4096;  // on the CPU
constexpr int64_t kMostLanes = 256;  // totals of the columns of a row that a CPU thread keeps

// The elements of one value, and their place in an output. A concatenation or a stack becomes one
// segment per part, so that no element has to determine which part it belongs to.
struct Segment {
  const Value* value = nullptr;
  int output = 0;
  Exprs offset;  // of the first element; has the output's rank
  const Shape& shape() const { return value->type.shape; }
};

// Segments of one shape share their loops. A run of similar parts is one segment and a loop over
// them.
struct Group {
  std::vector<Segment> segments;
  std::shared_ptr<PartRun> run;  // null if the group is no run
  int64_t run_axis = 0;

  const Shape& shape() const { return segments.front().shape(); }
  int parts() const { return run ? run->count : 1; }
};

class LoopPlanner {
 public:
  LoopPlanner(const Node& region, KernelBuilder& builder)
      : region_(region), builder_(builder), lowering_(region, builder) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    CollectSegments();
    for (const Group& group : groups_) {
      if (group.run) tables_.Declare(builder_, *group.run);
    }
    if (IsSingle() && IsFlat())
      PlanFlat();
    else
      PlanRows();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  void CollectSegments() {
    const Graph& body = *region_.body;
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      const Value* value = body.outputs[i];
      Exprs start(value->type.rank(), 0);
      std::vector<const Value*> stacked = {value};
      if (body.outputs.size() == 1 && !StackedParts(value).empty()) stacked = StackedParts(value);
      for (size_t part = 0; part < stacked.size(); ++part) {
        if (part > 0) start[0] = static_cast<int64_t>(part);
        SplitValue(stacked[part], static_cast<int>(i), start);
      }
    }
    const int most = std::max(groups_[0].segments[0].value->type.rank() - 1, 0);
    lead_ = IsSingle() ? most : std::min(lead_, most);
  }

  bool IsSingle() const { return groups_.size() == 1 && !groups_[0].run; }

  // Adds the segments of `value`, which begins at `at` in the output.
  void SplitValue(const Value* value, int output, Exprs at) {
    const Node* producer = value->producer;
    if (!producer || producer->kind != OpKind::kConcat || producer->Int("axis") == 0)
      return AddSegment({value, output, at});
    const int64_t axis = producer->Int("axis");
    lead_ = std::min<int>(lead_, static_cast<int>(axis));
    const std::vector<const Value*> parts(producer->operands.begin(), producer->operands.end());
    Expr& offset = at[at.size() - value->type.rank() + axis];
    for (size_t k = 0; k < parts.size();) {
      auto run = FindPartRun(region_, ArrayRef(parts).drop_front(k));
      const size_t taken = run ? run->count : 1;
      if (run)
        groups_.push_back(
            {{{parts[k], output, Exprs(at)}}, std::make_shared<PartRun>(std::move(*run)), axis});
      else
        AddSegment({parts[k], output, at});
      for (size_t end = k + taken; k < end; ++k) offset = offset + parts[k]->type.shape[axis];
    }
  }

  void AddSegment(const Segment& segment) {
    for (Group& group : groups_) {
      const bool fits = !group.run && group.shape() == segment.shape() &&
                        group.segments.front().output != segment.output;
      if (fits) return group.segments.push_back(segment);
    }
    groups_.push_back({{segment}, nullptr, 0});
  }

  void StoreGroup(const Group& group, ArrayRef<Expr> index) {
    if (group.run) return StorePart(group, index);
    for (const Segment& segment : group.segments) {
      const auto place = PlaceOfPart(builder_, region_.result(segment.output), segment.offset,
                                     ModelName(segment.value->name));
      lowering_.Store(segment.output, Shifted(index, segment.offset),
                      lowering_.Evaluate(segment.value, index), place);
    }
  }

  static Exprs Shifted(ArrayRef<Expr> index, Exprs offset) {
    const size_t stacked = offset.size() - index.size();
    for (size_t i = 0; i < index.size(); ++i) offset[stacked + i] = index[i] + offset[stacked + i];
    return offset;
  }

  // Stores one element of part number `part` of a run.
  void StorePart(const Group& group, ArrayRef<Expr> index) {
    const Segment& segment = group.segments[0];
    RegionLowering lowering(*group.run->region, builder_);
    const Value* result = region_.result(segment.output);
    const auto first = PlaceOfPart(builder_, result, segment.offset, "parts");
    Exprs place = Shifted(index, segment.offset);
    Expr& along = place[place.size() - index.size() + group.run_axis];
    along = along + Variable(kPartVariable) * segment.shape()[group.run_axis];
    lowering_.Store(segment.output, place, lowering.Evaluate(group.run->output, index), first);
  }

  struct Trial {
    bool divides = false;
    RegionLowering::Loads loads;
  };
  // Tries out a plan, and returns facts about the kernel that it would write.
  Trial Try(function_ref<void(LoopPlanner&)> plan) const {
    std::vector<IndexSite> sites;
    KernelBuilder trial(builder_, sites);
    LoopPlanner planner(region_, trial);
    planner.groups_ = groups_;
    planner.lead_ = lead_;
    plan(planner);
    return {trial.expressions().wrote_division(), planner.lowering_.loads()};
  }

  // Whether a single position can index every access, so that no load or store needs a division.
  bool IsFlat() const {
    const Shape& shape = groups_[0].shape();
    if (shape.size() < 2) return true;
    return !Try([&](LoopPlanner& planner) {
              KernelBuilder& trial = planner.builder_;
              trial.DefineVariable("i", 0, Product(shape) - 1);
              planner.StoreGroup(groups_[0], Delinearize(Variable("i"), shape, trial.ranges()));
            }).divides;
  }

  void PlanFlat() {
    const Shape& shape = groups_[0].shape();
    const Expr total = Product(shape);
    const bool is_gpu = builder_.target() == TargetKind::kGpu;
    if (const int64_t lanes = is_gpu ? FlatLanes(total) : 1; lanes > 1)
      return PlanFlatVectors(lanes);
    builder_.DefineVariable("i", 0, total - 1);
    const auto index = Delinearize(Variable("i"), shape, builder_.ranges());
    if (is_gpu) {
      OneThreadPerElement(total, Elements());
      StoreGroup(groups_[0], index);
      return;
    }
    const int64_t chunk = CpuBlockElements(builder_);
    ChunkOfBlock(total, "first", "last", chunk);
    builder_.Open();
    builder_.DefineVariable("i", 0, total - 1);
    StoreGroup(groups_[0], index);
    builder_.CloseFor(LoopHeader(builder_, "i", "first", "last"));
    builder_.plan().launch_in_words = "blocks of " + std::to_string(chunk) + " elements";
  }

  // How many consecutive elements a thread computes: 1 if more would need divisions or more loads.
  int64_t FlatLanes(const Expr& total) const {
    const int64_t lanes = LanesOf(groups_[0], {total});
    if (lanes == 1 || IsSmall(total)) return 1;
    const Trial trial = Try([&](LoopPlanner& planner) { planner.PlanFlatVectors(lanes); });
    return !trial.divides && ServesLoads(trial) ? lanes : 1;
  }

  // Like PlanFlat, with one thread per vector.
  void PlanFlatVectors(int64_t lanes) {
    const Shape& shape = groups_[0].shape();
    OneThreadPerVector(Product(shape), lanes, {});
    builder_.expressions().NameFactor("i", lanes, LanesName(lanes));
    const Expr position = Variable("i") * lanes + OpenVector(lanes);
    StoreGroup(groups_[0], Delinearize(position, shape, builder_.ranges()));
    builder_.CloseLanes();
  }

  // Few elements are computed faster by more threads.
  static bool IsSmall(const Expr& total) {
    return total.AsConstant().value_or(kFewElements) < kFewElements;
  }

  // Whether enough loads are vectors. If not, single loads by consecutive threads are faster.
  static bool ServesLoads(const Trial& trial) {
    return trial.loads.of_lanes <= trial.loads.of_vectors;
  }

  // `of_row` names the number of vectors per row, if needed.
  void OneThreadPerVector(const Expr& elements, int64_t lanes, std::vector<SizeName> of_row) {
    const Expr total = FloorDiv(elements, lanes, builder_.ranges());
    builder_.DefineVariable("i", 0, total - 1);
    OneThreadPerElement(total, CountOf("vectors", LanesName(lanes).ToString() + " elements each",
                                       std::move(of_row)));
    builder_.plan().launch_in_words =
        "one thread per " + std::to_string(lanes) + " elements of the result";
  }

  // const int i = ...; if (i >= total) return;
  void OneThreadPerElement(const Expr& total, const SizeNames& names) {
    KernelPlan& plan = builder_.plan();
    plan.block_size = GpuBlockSize(builder_);
    plan.blocks = CeilDiv(total, plan.block_size, builder_.ranges());
    plan.launch_in_words = "one thread per element of the result";
    builder_.AppendLet("i", BlockNumber(builder_) * BlockSizeName(builder_) + "threadIdx.x");
    builder_.AppendIf("i" >= builder_.Write(total, names), "return");
  }

  // const long long first = blockIdx.x * kChunk; const long long last = min(first + kChunk, total);
  void ChunkOfBlock(const Expr& total, const std::string& first, const std::string& last,
                    int64_t chunk) {
    KernelPlan& plan = builder_.plan();
    const SizeNames names = first == "first" ? Elements() : CountOf("rows", "rows of the result");
    plan.blocks = CeilDiv(total, chunk, builder_.ranges());
    const CExpr chunk_name = builder_.expressions().Constant(
        "chunk", chunk, "what a block computes of " + total.ToString());
    builder_.AppendLet(first, BlockNumber(builder_) * chunk_name);
    builder_.AppendLet(last, Min(first + chunk_name, WriteSize(builder_, total, names)));
    // Within the chunk of a block, positions are below `total`.
    builder_.DefineVariable(first, 0, total - 1);
    builder_.DefineVariable(last, 0, total);
  }

  SizeNames Elements() const { return part_names_.Elements(groups_[0].segments[0].value); }

  Shape Lead() const {
    const Shape& shape = groups_[0].shape();
    return Shape(shape.begin(), shape.begin() + lead_);
  }
  Shape Inner(ShapeRef shape) const { return Shape(shape.begin() + lead_, shape.end()); }

  // Rows are the leading dims that all segments share. Each group of segments loops over its own
  // inner dims.
  void PlanRows() {
    if (builder_.target() == TargetKind::kCpu)
      PlanCpuRows();
    else if (IsSingle())
      PlanGpuGrid();
    else
      PlanGpuSegments();
  }

  void PlanCpuRows() {
    const Expr rows = Product(Lead());
    Expr inner_total = 0;
    for (const Group& group : groups_)
      inner_total = inner_total + Product(Inner(group.shape())) * group.parts();
    const int64_t inner_high = std::max<int64_t>(1, builder_.ranges().IntervalOf(inner_total).high);
    const int64_t chunk =
        std::clamp<int64_t>(CpuBlockElements(builder_) / inner_high, 1, kMostRowsOfBlock);
    ChunkOfBlock(rows, "first_row", "last_row", chunk);
    builder_.plan().launch_in_words = "blocks of " + std::to_string(chunk) + " rows";
    builder_.Open();
    builder_.DefineVariable("row", 0, rows - 1);
    const auto lead = Coordinates(builder_, Variable("row"), Lead(), "row");
    for (const Group& group : groups_) {
      const Shape inner = Inner(group.shape());
      Exprs index = lead;
      std::vector<Statement> headers;
      if (group.run) {
        headers.push_back(LoopHeader(builder_, kPartVariable, 0,
                                     builder_.Write(group.parts(), Only(PartNames::Parts()))));
        builder_.Open();
        builder_.DefineVariable(kPartVariable, 0, group.parts() - 1);
        tables_.DefinePart(builder_, *group.run);
      }
      for (size_t i = 0; i < inner.size(); ++i) {
        if (inner[i].IsConstant(1)) {
          index.push_back(0);
          continue;
        }
        const std::string variable =
            i + 1 == inner.size() ? "column" : "inner_" + std::to_string(i);
        const Value* value = group.segments[0].value;
        const CExpr extent = builder_.Write(inner[i], Only(part_names_.Extent(value, lead_ + i)));
        index.push_back(Variable(variable));
        const int64_t count = inner[i].AsConstant().value_or(kMostLanes + 1);
        if (i + 1 == inner.size() && count > 0 && count <= kMostLanes) {
          builder_.OpenLanes({variable, count, false, "", extent});
          continue;
        }
        headers.push_back(LoopHeader(builder_, variable, 0, extent));
        builder_.Open();
        builder_.DefineVariable(variable, 0, inner[i] - 1);
      }
      StoreGroup(group, index);
      if (builder_.lanes()) builder_.CloseLanes();
      for (auto header = headers.rbegin(); header != headers.rend(); ++header)
        builder_.CloseFor(*header);
    }
    builder_.CloseFor(LoopHeader(builder_, "row", "first_row", "last_row"));
  }

  // How many consecutive elements a thread computes. That is 16 bytes of the widest result, or
  // `at_least` elements if that is more, or what the launch shape requests; fewer if not all of
  // `extents` are multiples of it, at least 8 bytes; else 1.
  int64_t LanesOf(const Group& group, ArrayRef<Expr> extents, int64_t at_least = 0) const {
    int bytes = 2;
    for (const Segment& segment : group.segments)
      bytes = std::max(bytes, DtypeBytes(region_.body->outputs[segment.output]->type.dtype));
    const int64_t most = builder_.shape().lanes > 0 ? builder_.shape().lanes
                                                    : std::max<int64_t>(16 / bytes, at_least);
    for (const int lanes : {64 / bytes, 32 / bytes, 16 / bytes, 8 / bytes}) {
      if (lanes > most) continue;
      const bool fits = std::all_of(extents.begin(), extents.end(), [&](const Expr& extent) {
        return IsMultiple(extent, lanes) && !extent.IsConstant(0);
      });
      if (fits) return lanes;
    }
    return 1;
  }

  // The same for rows, and the parts that a group writes, which must begin and end at multiples.
  int64_t LanesOfRows(const Group& group) const {
    const Shape inner = Inner(group.shape());
    if (inner.empty() || !Product(inner).AsConstant()) return 1;
    Exprs extents = {inner.back()};
    for (const Segment& segment : group.segments) {
      extents.push_back(region_.body->outputs[segment.output]->type.shape.back());
      if (segment.offset.back() != 0) extents.push_back(segment.offset.back());
    }
    const bool is_gpu = builder_.target() == TargetKind::kGpu;
    return LanesOf(group, extents, is_gpu ? LanesOfPooledRows(group.segments[0].value) : 0);
  }

  // Opens a loop over the elements of a vector, and returns the lane.
  Expr OpenVector(int64_t lanes) {
    builder_.OpenLanes({"lane", lanes, true, "#pragma unroll", LanesName(lanes)});
    return Variable("lane");
  }

  CExpr LanesName(int64_t lanes) {
    return builder_.expressions().Constant("lanes", lanes, "elements that a thread computes");
  }

  void PlanGpuGrid() {
    const Shape& shape = groups_[0].shape();
    if (const int64_t lanes = LanesOfRows(groups_[0]); lanes > 1 && !IsSmall(Product(shape))) {
      const Trial trial = Try([&](LoopPlanner& planner) { planner.PlanGpuVectors(lanes); });
      if (ServesLoads(trial)) return PlanGpuVectors(lanes);
    }
    builder_.DefineVariable("i", 0, Product(shape) - 1);
    OneThreadPerElement(Product(shape), Elements());
    const Value* value = groups_[0].segments[0].value;
    StoreElementOfRow(groups_[0], 1, Only(part_names_.Extent(value, lead_)));
  }

  // Like PlanGpuGrid, with one thread per vector of a row.
  void PlanGpuVectors(int64_t lanes) {
    const Shape& shape = groups_[0].shape();
    const Expr vectors = *shape.back().AsConstant() / lanes;
    const SizeName of_row = {*vectors.AsConstant(), "vectors_per_row",
                             LanesName(lanes).ToString() + " elements each"};
    OneThreadPerVector(Product(shape), lanes, {of_row});
    StoreElementOfRow(groups_[0], lanes, Only(of_row));
  }

  // Each group has its own blocks, and so has each part of a run. The blocks of a part read one
  // table, so that concurrent blocks can keep it in the L2 cache.
  void PlanGpuSegments() {
    KernelPlan& plan = builder_.plan();
    plan.block_size = GpuBlockSize(builder_);
    plan.blocks = 0;
    plan.launch_in_words = "one part per block, one thread per vector or element of it";
    // The groups with the longest threads start first, so that no long block runs alone at the end.
    const auto folded = [&](const Group& group) {
      return FoldedElements(group.segments[0].value, builder_.ranges());
    };
    std::stable_sort(groups_.begin(), groups_.end(),
                     [&](const auto& a, const auto& b) { return folded(a) > folded(b); });
    if (groups_.size() == 1)
      builder_.AppendLet("block", BlockNumber(builder_));
    else
      builder_.Declare(builder_.index_type(), "block", BlockNumber(builder_));
    for (const Group& group : groups_) {
      const bool is_last = &group == &groups_.back();
      const int64_t lanes = LanesOfRows(group);
      const SizeNames names = part_names_.Row(group.segments[0].value, lead_, lanes,
                                              lanes > 1 ? LanesName(lanes) : CExpr(), 1);
      const Expr total =
          Product(Lead()) * FloorDiv(Product(Inner(group.shape())), lanes, builder_.ranges());
      const CExpr count = builder_.Write(total, names);
      const Expr part_blocks = CeilDiv(total, plan.block_size, builder_.ranges());
      plan.blocks = plan.blocks + part_blocks * group.parts();
      const std::string name =
          builder_.Unique(part_names_.NameOf(group.segments[0].value) + "_blocks");
      const CExpr size = BlockSizeName(builder_);
      builder_.AppendLet(name, (count + size - 1) / size);
      CExpr blocks = name;
      if (group.run) blocks = blocks * builder_.Write(group.parts(), Only(PartNames::Parts()));
      if (!is_last) builder_.Open(/*is_branch=*/true);
      CExpr first = "block";
      if (group.run) {
        builder_.AppendLet(kPartVariable, "block" / CExpr(name));
        builder_.DefineVariable(kPartVariable, 0, group.parts() - 1);
        tables_.DefinePart(builder_, *group.run);
        first = "block" % CExpr(name);
      }
      builder_.AppendLet("i", first * size + "threadIdx.x");
      builder_.AppendIf("i" >= count, "return");
      builder_.DefineVariable("i", 0, total - 1);
      StoreElementOfRow(group, lanes, names);
      if (is_last) break;
      builder_.AppendCall("return");
      builder_.CloseIf("block" < blocks);
      builder_.Assign("block", "block" - blocks);
    }
  }

  // Stores element number `i` of a group, or vector number `i` of `lanes` elements. `names` are the
  // names of the sizes of a row.
  void StoreElementOfRow(const Group& group, int64_t lanes, const SizeNames& names) {
    const Shape inner = Inner(group.shape());
    const Expr i = Variable("i");
    const Expr per_row = FloorDiv(Product(inner), lanes, builder_.ranges());
    Exprs index = RowOfThread(per_row, names);
    if (lanes > 1) {
      AddVectorOf(inner, i, lanes, names, index);
    } else if (per_row.IsConstant(1)) {
      index.resize(index.size() + inner.size(), 0);
    } else {
      LocalCoordinate("column", Mod(i, per_row, builder_.ranges()), per_row, names);
      for (const Expr& e : Coordinates(builder_, Variable("column"), inner, "column", names))
        index.push_back(e);
    }
    StoreGroup(group, index);
    if (lanes > 1) builder_.CloseLanes();
  }

  // The leading coordinates of the element that thread `i` computes; a row has `per_row` elements.
  Exprs RowOfThread(const Expr& per_row, const SizeNames& names) {
    const Expr rows = Product(Lead());
    if (rows.IsConstant(1)) return Exprs(lead_, 0);
    LocalCoordinate("row", FloorDiv(Variable("i"), per_row, builder_.ranges()), rows, names);
    return Coordinates(builder_, Variable("row"), Lead(), "row");
  }

  // Opens a loop over the lanes of vector `i`, and appends the coordinates in `inner` to `index`.
  void AddVectorOf(ShapeRef inner, const Expr& i, int64_t lanes, const SizeNames& names,
                   Exprs& index) {
    Shape vectors(inner);
    vectors.back() = FloorDiv(inner.back(), lanes, builder_.ranges());
    const Expr count = Product(vectors);
    Expr vector = 0;
    if (!count.IsConstant(1)) {
      LocalCoordinate("vector", Mod(i, count, builder_.ranges()), count, names);
      vector = Variable("vector");
    }
    for (const Expr& e : Coordinates(builder_, vector, vectors, "vector", names))
      index.push_back(e);
    if (const auto last = index.back().AsSymbol())
      builder_.expressions().NameFactor(WordOfSymbol(*last), lanes, LanesName(lanes));
    index.back() = index.back() * lanes + OpenVector(lanes);
  }

  // const int row = <value>; for the innermost scope, with 0 <= row < extent.
  void LocalCoordinate(const std::string& name, const Expr& value, const Expr& extent,
                       const SizeNames& names) {
    builder_.AppendLet(name, builder_.Write(value, names));
    builder_.DefineVariable(name, 0, extent - 1);
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  std::vector<Group> groups_;
  PartTables tables_;
  const PartNames part_names_{region_, builder_};
  int lead_ = 1 << 20;
};

}  // namespace

KernelPlan PlanLoop(const Node& region, KernelBuilder& builder) {
  return LoopPlanner(region, builder).Plan();
}

}  // namespace fusec
