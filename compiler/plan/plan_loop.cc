#include <algorithm>
#include <set>

#include "compiler/kernel/prefetch_rows.h"
#include "compiler/plan/loop_writer.h"
#include "compiler/plan/pooled_lanes.h"
#include "compiler/plan/read_codes.h"
#include "compiler/region/slot_product.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kFewElements = 1 << 15;   // less than half a wave of threads on a large GPU
constexpr int64_t kMostRowsOfBlock = 4096;  // on the CPU
constexpr int64_t kMostLanes = 256;  // totals of the columns of a row that a CPU thread keeps

class LoopPlanner : LoopWriter {
 public:
  LoopPlanner(const Node& region, KernelBuilder& builder)
      : LoopPlanner(region, builder, SegmentsOf(region)) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    for (const LoopGroup& group : segments_.groups) {
      if (group.run) tables_.Declare(builder_, *group.run);
    }
    if (segments_.IsSingle() && IsFlat())
      PlanFlat();
    else
      PlanRows();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  LoopPlanner(const Node& region, KernelBuilder& builder, LoopSegments segments)
      : LoopWriter(region, builder, std::move(segments)) {}

  struct Trial {
    bool divides = false;
    RegionLowering::Loads loads;
  };
  // Tries out a plan, and returns facts about the kernel that it would write.
  Trial Try(function_ref<void(LoopPlanner&)> plan) const {
    std::vector<IndexSite> sites;
    KernelBuilder trial(builder_, sites);
    LoopPlanner planner(region_, trial, segments_);
    plan(planner);
    return {trial.expressions().wrote_division(), planner.lowering_.loads()};
  }

  // Whether a single position can index every access, so that no load or store needs a division.
  bool IsFlat() const {
    const Shape& shape = segments_.groups[0].shape();
    if (shape.size() < 2) return true;
    return !Try([&](LoopPlanner& planner) {
              KernelBuilder& trial = planner.builder_;
              trial.DefineVariable("i", 0, Product(shape) - 1);
              planner.StoreGroup(segments_.groups[0],
                                 Delinearize(Variable("i"), shape, trial.ranges()));
            }).divides;
  }

  void PlanFlat() {
    const Shape& shape = segments_.groups[0].shape();
    const Expr total = Product(shape);
    const bool is_gpu = builder_.target() == TargetKind::kGpu;
    if (const int64_t lanes = is_gpu ? FlatLanes(total) : 1; lanes > 1)
      return PlanFlatVectors(lanes);
    builder_.DefineVariable("i", 0, total - 1);
    const auto index = Delinearize(Variable("i"), shape, builder_.ranges());
    if (is_gpu) {
      OneThreadPerElement(total, Elements());
      return StoreGroup(segments_.groups[0], index);
    }
    const int64_t chunk = CpuBlockElements(builder_);
    ChunkOfBlock(total, "first", "last", chunk);
    builder_.Open();
    builder_.DefineVariable("i", 0, total - 1);
    StoreGroup(segments_.groups[0], index);
    builder_.CloseFor(LoopHeader(builder_, "i", "first", "last"));
    builder_.plan().launch_in_words = "blocks of " + std::to_string(chunk) + " elements";
  }

  // How many consecutive elements a thread computes: 1 if more would need divisions or more loads.
  int64_t FlatLanes(const Expr& total) const {
    const int64_t lanes = LanesOf(segments_.groups[0], {total});
    if (lanes == 1 || IsSmall(total)) return 1;
    const Trial trial = Try([&](LoopPlanner& planner) { planner.PlanFlatVectors(lanes); });
    return !trial.divides && ServesLoads(trial) ? lanes : 1;
  }

  // Like PlanFlat, with one thread per vector.
  void PlanFlatVectors(int64_t lanes) {
    const Shape& shape = segments_.groups[0].shape();
    OneThreadPerVector(Product(shape), lanes, {});
    builder_.expressions().NameFactor("i", lanes, LanesName(lanes));
    const Expr position = Variable("i") * lanes + OpenVector(lanes);
    StoreGroup(segments_.groups[0], Delinearize(position, shape, builder_.ranges()));
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

  SizeNames Elements() const { return part_names_.Elements(segments_.groups[0].segments[0].value); }

  // Rows are the leading dims that all segments share; each group loops over its own inner dims.
  void PlanRows() {
    if (builder_.target() == TargetKind::kCpu)
      PlanCpuRows();
    else if (segments_.IsSingle())
      PlanGpuGrid();
    else
      PlanGpuSegments();
  }

  void PlanCpuRows() {
    const Expr rows = Product(Lead());
    Expr inner_total = WorkOfSlotProducts(region_);
    for (const LoopGroup& group : segments_.groups)
      inner_total = inner_total + Product(Inner(group.shape())) * group.parts();
    const int64_t inner_high = std::max<int64_t>(1, builder_.ranges().IntervalOf(inner_total).high);
    const int64_t chunk =
        std::clamp<int64_t>(CpuBlockElements(builder_) / inner_high, 1, kMostRowsOfBlock);
    ChunkOfBlock(rows, "first_row", "last_row", chunk);
    builder_.plan().launch_in_words = "blocks of " + std::to_string(chunk) + " rows";
    builder_.Open();
    builder_.DefineVariable("row", 0, rows - 1);
    const auto lead = Coordinates(builder_, Variable("row"), Lead(), "row");
    for (const LoopGroup& group : segments_.groups) {
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
        CExpr extent =
            builder_.Write(inner[i], Only(part_names_.Extent(value, segments_.lead + i)));
        index.push_back(Variable(variable));
        int64_t count = inner[i].AsConstant().value_or(kMostLanes + 1);
        const int64_t piece = i + 1 == inner.size() ? PieceOf(group) : 0;
        if (piece > 0) {
          OpenPieces(count / piece, headers);
          index.back() = Variable("piece") * piece + Variable(variable);
          extent = builder_.Write(piece, Only({0, "piece", "columns of a piece"}));
          count = piece;
        }
        if (i + 1 == inner.size() && count > 0 && count <= kMostLanes) {
          builder_.OpenLanes({variable, count, false, "", extent});
          continue;
        }
        headers.push_back(LoopHeader(builder_, variable, 0, extent));
        builder_.Open();
        builder_.DefineVariable(variable, 0, (piece > 0 ? Expr(piece) : inner[i]) - 1);
      }
      for (const LoopSegment& segment : group.segments) {
        if (builder_.lanes() && segments_.IsSingle()) ReadCodes(lowering_, segment.value, index);
      }
      StoreGroup(group, index);
      if (builder_.lanes()) builder_.CloseLanes();
      for (auto header = headers.rbegin(); header != headers.rend(); ++header)
        builder_.CloseFor(*header);
    }
    CloseRowsOnCpu(builder_, region_, LoopHeader(builder_, "row", "first_row", "last_row"),
                   WriteSize(builder_, rows, CountOf("rows", "rows of the result")));
  }

  void OpenPieces(int64_t pieces, std::vector<Statement>& headers) {
    const CExpr count = builder_.Write(pieces, Only({0, "pieces", "of a row of the result"}));
    headers.push_back(LoopHeader(builder_, "piece", 0, count));
    builder_.Open();
    builder_.DefineVariable("piece", 0, pieces - 1);
  }

  // The columns of the pieces that a CPU thread computes one after the other, if the last axis is a
  // view of two axes and positions in both would need divisions in each column; else 0.
  //
  //   rows [batch, 26, 16] flattened to [batch, 416]: 26 pieces of 16 columns
  int64_t PieceOf(const LoopGroup& group) const {
    const auto columns = group.shape().back().AsConstant();
    if (!columns || group.run) return 0;
    std::set<int64_t> pieces;
    for (const auto& node : region_.body->nodes) {
      if (node->kind != OpKind::kReshape || node->operand(0)->type.rank() == 0) continue;
      const int64_t piece = node->operand(0)->type.shape.back().AsConstant().value_or(0);
      if (piece > 1 && piece < *columns && *columns % piece == 0) pieces.insert(piece);
    }
    if (pieces.empty() || !DividesByPieces(group, 0)) return 0;
    const auto found = std::find_if(pieces.begin(), pieces.end(),
                                    [&](int64_t piece) { return !DividesByPieces(group, piece); });
    return found == pieces.end() ? 0 : *found;
  }

  // Whether an element of the group needs divisions, given its coordinates: the last one as a
  // column, or as a piece and a column of the piece.
  bool DividesByPieces(const LoopGroup& group, int64_t piece) const {
    return Try([&](LoopPlanner& planner) {
             KernelBuilder& trial = planner.builder_;
             const Shape& shape = group.shape();
             Exprs index;
             for (size_t i = 0; i < shape.size(); ++i) {
               const bool is_last = i + 1 == shape.size();
               const Expr extent = is_last && piece > 0 ? Expr(piece) : shape[i];
               const std::string variable = "axis_" + std::to_string(i);
               index.push_back(
                   extent.IsConstant(1) ? Expr(0) : trial.DefineVariable(variable, 0, extent - 1));
             }
             if (piece > 0)
               index.back() =
                   trial.DefineVariable("piece", 0, *shape.back().AsConstant() / piece - 1) *
                       piece +
                   index.back();
             planner.StoreGroup(group, index);
           })
        .divides;
  }

  void PlanGpuGrid() {
    const Shape& shape = segments_.groups[0].shape();
    if (const int64_t lanes = LanesOfRows(segments_.groups[0]);
        lanes > 1 && !IsSmall(Product(shape))) {
      const Trial trial = Try([&](LoopPlanner& planner) { planner.PlanGpuVectors(lanes); });
      if (ServesLoads(trial)) return PlanGpuVectors(lanes);
    }
    builder_.DefineVariable("i", 0, Product(shape) - 1);
    OneThreadPerElement(Product(shape), Elements());
    const Value* value = segments_.groups[0].segments[0].value;
    StoreElementOfRow(segments_.groups[0], 1, Only(part_names_.Extent(value, segments_.lead)));
  }

  // Like PlanGpuGrid, with one thread per vector of a row.
  void PlanGpuVectors(int64_t lanes) {
    const Shape& shape = segments_.groups[0].shape();
    const Expr vectors = *shape.back().AsConstant() / lanes;
    const SizeName of_row = {*vectors.AsConstant(), "vectors_per_row",
                             LanesName(lanes).ToString() + " elements each"};
    OneThreadPerVector(Product(shape), lanes, {of_row});
    StoreElementOfRow(segments_.groups[0], lanes, Only(of_row));
  }

  // Each group has its own blocks, and so has each part of a run. The blocks of a part read one
  // table, so that concurrent blocks can keep it in the L2 cache.
  void PlanGpuSegments() {
    KernelPlan& plan = builder_.plan();
    plan.block_size = GpuBlockSize(builder_);
    plan.blocks = 0;
    plan.launch_in_words = "one part per block, one thread per vector or element of it";
    // The groups with the longest threads start first, so that no long block runs alone at the end.
    const auto folded = [&](const LoopGroup& group) {
      return FoldedElements(group.segments[0].value, builder_.ranges());
    };
    std::stable_sort(segments_.groups.begin(), segments_.groups.end(),
                     [&](const auto& a, const auto& b) { return folded(a) > folded(b); });
    if (segments_.groups.size() == 1)
      builder_.AppendLet("block", BlockNumber(builder_));
    else
      builder_.Declare(builder_.index_type(), "block", BlockNumber(builder_));
    for (const LoopGroup& group : segments_.groups) {
      const bool is_last = &group == &segments_.groups.back();
      const int64_t lanes = LanesOfRows(group);
      const SizeNames names = part_names_.Row(group.segments[0].value, segments_.lead, lanes,
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
};

}  // namespace

KernelPlan PlanLoop(const Node& region, KernelBuilder& builder) {
  return LoopPlanner(region, builder).Plan();
}

}  // namespace fusec
