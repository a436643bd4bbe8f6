#include <algorithm>

#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// A box of elements of one value and where in which output they go. A concatenated output is one segment per part, so that no
// element has to ask which part it belongs to.
struct Segment {
  const Value* value = nullptr;
  int output = 0;
  std::vector<Expr> offset;
  const Shape& shape() const { return value->type.shape; }
};

constexpr int64_t kCpuBlockElements = 16384;  // about 64 KB of floats: enough work to hand to another core
constexpr int kGpuBlockSize = 256;

class LoopPlanner {
 public:
  LoopPlanner(const Node& region, KernelBuilder& builder)
      : region_(region), builder_(builder), lowering_(region, builder) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    CollectSegments();
    if (groups_.size() == 1 && IsFlat()) PlanFlat();
    else PlanRows();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  void CollectSegments() {
    const Graph& body = *region_.body;
    std::vector<Segment> segments;
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      const Value* value = body.outputs[i];
      const Node* producer = value->producer;
      const bool splits = producer && producer->kind == OpKind::kConcat && producer->Int("axis") > 0;
      if (!splits) {
        segments.push_back({value, static_cast<int>(i), std::vector<Expr>(value->type.rank(), 0)});
        continue;
      }
      const int64_t axis = producer->Int("axis");
      lead_ = std::min<int>(lead_, static_cast<int>(axis));
      Expr offset = 0;
      for (const Value* part : producer->operands) {
        std::vector<Expr> at(value->type.rank(), 0);
        at[axis] = offset;
        offset = offset + part->type.shape[axis];
        segments.push_back({part, static_cast<int>(i), at});
      }
    }
    // Segments of one shape share their loops.
    for (const Segment& segment : segments) {
      auto same = std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) {
        return group.front().shape() == segment.shape() && segment.output != group.front().output;
      });
      if (same != groups_.end()) same->push_back(segment);
      else groups_.push_back({segment});
    }
    const int rank = segments[0].value->type.rank();
    if (groups_.size() == 1) lead_ = std::max(rank - 1, 0);
    lead_ = std::min(lead_, std::max(rank - 1, 0));
  }

  void StoreGroup(const std::vector<Segment>& group, const std::vector<Expr>& index) {
    for (const Segment& segment : group) {
      std::vector<Expr> place = index;
      for (size_t i = 0; i < place.size(); ++i) place[i] = place[i] + segment.offset[i];
      lowering_.Store(segment.output, place, lowering_.Evaluate(segment.value, index));
    }
  }

  // Whether one running position serves every access: no load or store then needs a division.
  bool IsFlat() {
    const Shape& shape = groups_[0].front().shape();
    if (shape.size() < 2) return true;
    std::vector<IndexSite> sites;
    KernelBuilder trial(builder_.target(), builder_.program(), sites);
    trial.plan().index_type = "int";
    trial.DefineVariable("i", 0, Product(shape) - 1);
    LoopPlanner planner(region_, trial);
    planner.groups_ = groups_;
    planner.StoreGroup(groups_[0], Delinearize(Expr::Symbol("i"), shape, trial.ranges()));
    return !trial.expressions().wrote_division();
  }

  void PlanFlat() {
    const Shape& shape = groups_[0].front().shape();
    const Expr total = Product(shape);
    KernelPlan& plan = builder_.plan();
    builder_.DefineVariable("i", 0, total - 1);
    const auto index = Delinearize(Expr::Symbol("i"), shape, builder_.ranges());
    if (builder_.target() == TargetKind::kGpu) {
      OneThreadPerElement(total);
      StoreGroup(groups_[0], index);
      return;
    }
    ChunkOfBlock(total, "first", "last", kCpuBlockElements);
    builder_.Open();
    builder_.DefineVariable("i", 0, total - 1);
    StoreGroup(groups_[0], index);
    builder_.CloseFor(LoopHeader(builder_, "i", "first", "last"));
    plan.launch_in_words = "blocks of " + std::to_string(kCpuBlockElements) + " elements";
  }

  // const int i = ...; if (i >= total) return;
  void OneThreadPerElement(const Expr& total) {
    KernelPlan& plan = builder_.plan();
    plan.block_size = kGpuBlockSize;
    plan.blocks = CeilDiv(total, kGpuBlockSize, builder_.ranges());
    plan.launch_in_words = "one thread per element of the result";
    builder_.expressions().NameConstant(kGpuBlockSize, "BlockSize", "threads");
    const bool wide = plan.index_type != "int";
    builder_.Append({Statement::Kind::kLet, plan.index_type, "i",
                     std::string(wide ? "(long long)" : "") + "blockIdx.x * " +
                         builder_.Write(kGpuBlockSize) + " + threadIdx.x",
                     {}, {}});
    builder_.Append({Statement::Kind::kIf, "", "", "i >= " + builder_.Write(total),
                     {{Statement::Kind::kCall, "", "", "return", {}, {}}}, {}});
  }

  // const long long first = blockIdx.x * kChunk; const long long last = min(first + kChunk, total);
  void ChunkOfBlock(const Expr& total, const std::string& first, const std::string& last,
                    int64_t chunk) {
    KernelPlan& plan = builder_.plan();
    plan.blocks = CeilDiv(total, chunk, builder_.ranges());
    builder_.expressions().NameConstant(chunk, "Chunk", "what one block owns of " + total.ToString());
    const std::string type = plan.index_type;
    builder_.Append({Statement::Kind::kLet, type, first,
                     "(" + type + ")blockIdx.x * " + builder_.Write(chunk), {}, {}});
    builder_.Append({Statement::Kind::kLet, type, last,
                     "min(" + first + " + " + builder_.Write(chunk) + ", (" + type + ")(" +
                         builder_.Write(total) + "))",
                     {}, {}});
    // Blocks beyond the chunk's dims have nothing to do; within it positions are below total.
    builder_.DefineVariable(first, 0, total - 1);
    builder_.DefineVariable(last, 0, total);
  }

  Shape Lead() const {
    const Shape& shape = groups_[0].front().shape();
    return Shape(shape.begin(), shape.begin() + lead_);
  }
  Shape Inner(const Shape& shape) const { return Shape(shape.begin() + lead_, shape.end()); }

  // Rows are the leading dims that all segments share; each group of segments loops over its own inner dims.
  void PlanRows() {
    const Expr rows = Product(Lead());
    Expr inner_total = 0;
    for (const auto& group : groups_) inner_total = inner_total + Product(Inner(group[0].shape()));
    const int64_t inner_high = std::max<int64_t>(1, builder_.ranges().IntervalOf(inner_total).high);
    if (builder_.target() == TargetKind::kCpu) {
      PlanCpuRows(rows, std::clamp<int64_t>(kCpuBlockElements / inner_high, 1, 4096));
    } else if (groups_.size() == 1) {
      PlanGpuGrid();
    } else {
      PlanGpuSegments(rows, std::clamp<int64_t>(4 * kGpuBlockSize / inner_high, 1, 64));
    }
  }

  void PlanCpuRows(const Expr& rows, int64_t chunk) {
    ChunkOfBlock(rows, "first_row", "last_row", chunk);
    builder_.plan().launch_in_words = "blocks of " + std::to_string(chunk) + " rows";
    builder_.Open();
    builder_.DefineVariable("row", 0, rows - 1);
    const auto lead = Coordinates(builder_, Expr::Symbol("row"), Lead(), "row");
    for (const auto& group : groups_) {
      const Shape inner = Inner(group[0].shape());
      std::vector<Expr> index = lead;
      std::vector<std::string> headers;
      for (size_t i = 0; i < inner.size(); ++i) {
        if (inner[i].IsConstant(1)) {
          index.push_back(0);
          continue;
        }
        const std::string variable = i + 1 == inner.size() ? "column" : "inner_" + std::to_string(i);
        NameExtent(inner[i], group[0].value);
        headers.push_back(LoopHeader(builder_, variable, "0", builder_.Write(inner[i])));
        builder_.Open();
        builder_.DefineVariable(variable, 0, inner[i] - 1);
        index.push_back(Expr::Symbol(variable));
      }
      StoreGroup(group, index);
      for (auto header = headers.rbegin(); header != headers.rend(); ++header) builder_.CloseFor(*header);
    }
    builder_.CloseFor(LoopHeader(builder_, "row", "first_row", "last_row"));
  }

  void PlanGpuGrid() {
    const Shape& shape = groups_[0].front().shape();
    builder_.DefineVariable("i", 0, Product(shape) - 1);
    OneThreadPerElement(Product(shape));
    NameExtent(shape.back(), groups_[0].front().value);
    const Expr row_flat = FloorDiv(Expr::Symbol("i"), shape.back(), builder_.ranges());
    std::vector<Expr> index;
    if (lead_ > 0 && !Product(Lead()).IsConstant(1)) {
      LocalCoordinate("row", row_flat, Product(Lead()));
      index = Coordinates(builder_, Expr::Symbol("row"), Lead(), "row");
    } else {
      index.assign(lead_, 0);
    }
    if (shape.back().IsConstant(1)) {
      index.push_back(0);
    } else {
      LocalCoordinate("column", Mod(Expr::Symbol("i"), shape.back(), builder_.ranges()), shape.back());
      index.push_back(Expr::Symbol("column"));
    }
    StoreGroup(groups_[0], index);
  }

  void PlanGpuSegments(const Expr& rows, int64_t chunk) {
    ChunkOfBlock(rows, "first_row", "last_row", chunk);
    KernelPlan& plan = builder_.plan();
    plan.block_size = kGpuBlockSize;
    plan.launch_in_words = "a block owns " + std::to_string(chunk) + " rows; its threads share out each part";
    builder_.expressions().NameConstant(kGpuBlockSize, "BlockSize", "threads");
    const Expr owned = Expr::Symbol("last_row") - Expr::Symbol("first_row");
    for (const auto& group : groups_) {
      const Shape inner = Inner(group[0].shape());
      const Expr inner_total = Product(inner);
      NameExtent(inner_total, group[0].value);
      builder_.Open();
      builder_.DefineVariable("i", 0, rows * inner_total - 1);
      const Expr i = Expr::Symbol("i");
      const Expr row_flat = Expr::Symbol("first_row") + FloorDiv(i, inner_total, builder_.ranges());
      LocalCoordinate("row", row_flat, rows);
      std::vector<Expr> index = Coordinates(builder_, Expr::Symbol("row"), Lead(), "row");
      if (inner_total.IsConstant(1)) {
        index.resize(index.size() + inner.size(), 0);
      } else {
        LocalCoordinate("column", Mod(i, inner_total, builder_.ranges()), inner_total);
        for (const Expr& e : Coordinates(builder_, Expr::Symbol("column"), inner, "column")) {
          index.push_back(e);
        }
      }
      StoreGroup(group, index);
      builder_.CloseFor(LoopHeader(builder_, "i", "threadIdx.x", builder_.Write(owned * inner_total),
                                   builder_.Write(kGpuBlockSize)));
    }
  }

  // const int row = <value>; for the innermost scope, with 0 <= row < extent.
  void LocalCoordinate(const std::string& name, const Expr& value, const Expr& extent) {
    builder_.Append({Statement::Kind::kLet, builder_.plan().index_type, name, builder_.Write(value), {}, {}});
    builder_.DefineVariable(name, 0, extent - 1);
  }

  void NameExtent(const Expr& extent, const Value* value) {
    if (auto number = extent.AsConstant()) {
      const std::string name = FriendlyName(value->name);
      builder_.expressions().NameConstant(*number, name + "_columns", "last axis of \"" + name + "\"");
    }
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  std::vector<std::vector<Segment>> groups_;
  int lead_ = 1 << 20;
};

}  // namespace

KernelPlan PlanLoop(const Node& region, KernelBuilder& builder) {
  return LoopPlanner(region, builder).Plan();
}

}  // namespace fusec
