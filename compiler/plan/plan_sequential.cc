#include "compiler/ir/c_text.h"
#include "compiler/kernel/fold.h"
#include "compiler/kernel/idioms.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// Scans, sorts and scatters: one thread processes each line along the op's axis in order, so that
// results do not depend on how threads are scheduled. A region of this kind has exactly one node.
class SequentialPlanner {
 public:
  SequentialPlanner(const Node& region, KernelBuilder& builder)
      : region_(region),
        builder_(builder),
        lowering_(region, builder),
        node_(*region.body->nodes.back()) {}

  KernelPlan Plan() {
    ChooseIndexType(region_, builder_);
    type_ = builder_.plan().index_type;
    // Each thread stores the elements of its own line one by one, and scatters load them again.
    builder_.plan().outputs_in_device_memory = true;
    switch (node_.kind) {
      case OpKind::kCumProd:
      case OpKind::kCumSum:
        PlanRunningFold();
        break;
      case OpKind::kTopK:
        PlanTopK();
        break;
      case OpKind::kScatterElements:
        PlanScatterElements();
        break;
      case OpKind::kScatterND:
        PlanScatterNd();
        break;
      default:
        FUSEC_CHECK(false, "no sequential kernel for " + PrintNode(node_));
    }
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  // Chooses one thread per line; `lines` are the dims other than the axis. Returns the coordinates
  // of the line whose number is the local `variable`.
  Exprs OpenLines(ShapeRef lines, const std::string& variable = "row",
                  const std::string& line = "line", const std::string& where = "along the axis") {
    const Expr count = Product(lines);
    KernelPlan& plan = builder_.plan();
    const bool cpu = builder_.target() == TargetKind::kCpu;
    plan.block_size = cpu ? 1 : GpuBlockSize(builder_);
    plan.blocks = CeilDiv(count, plan.block_size, builder_.ranges());
    plan.launch_in_words = "one thread per " + line + " " + where;
    const CExpr block = BlockNumber(builder_);
    builder_.AppendLet(variable, cpu ? block : block * BlockSizeName(builder_) + "threadIdx.x");
    builder_.AppendIf(variable >= builder_.Write(count, CountOf(line + "s", where)), "return");
    builder_.DefineVariable(variable, 0, count - 1);
    return Coordinates(builder_, Variable(variable), lines, variable);
  }

  static Shape Without(ShapeRef shape, int64_t axis) {
    Shape lines(shape);
    lines.erase(lines.begin() + axis);
    return lines;
  }
  static Exprs Insert(Exprs line, int64_t axis, const Expr& at) {
    line.insert(line.begin() + axis, at);
    return line;
  }

  void OpenLoop(const std::string& variable, const Expr& extent) {
    builder_.Open();
    builder_.DefineVariable(variable, 0, extent - 1);
  }
  void CloseLoop(const std::string& variable, const Expr& extent, const SizeNames& names) {
    builder_.CloseFor(LoopHeader(builder_, variable, 0, builder_.Write(extent, names)));
  }
  // The name of the extent of an axis.
  SizeNames Extent(const Value* value, int64_t axis) const {
    const std::string name = NameOf(builder_, lowering_.Outside(value));
    return Only(ExtentOf(name, value->type.shape, static_cast<size_t>(axis)));
  }

  void PlanRunningFold() {
    const bool is_sum = node_.kind == OpKind::kCumSum;
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis];
    const Dtype dtype = x->type.dtype;
    const auto line = OpenLines(Without(x->type.shape, axis));
    builder_.Comment(is_sum ? "cumsum: a running total along the axis"
                            : "cumprod: a running product along the axis");
    const std::string total = builder_.Unique(is_sum ? "total" : "product");
    builder_.Declare(CTypeName(dtype), total, Literal(is_sum ? 0 : 1, dtype));
    const auto fold = [&](const CExpr& element) {
      builder_.Assign(total, is_sum ? total + element : total * element);
    };
    OpenLoop("k", length);
    const Expr k = Variable("k");
    const auto index = Insert(line, axis, node_.Int("reverse") ? length - 1 - k : k);
    const Scalar element = lowering_.Evaluate(x, index);
    if (node_.Int("exclusive")) {
      lowering_.Store(0, index, {total, dtype});
      fold(element.value);
    } else {
      fold(element.value);
      lowering_.Store(0, index, {total, dtype});
    }
    CloseLoop("k", length, Extent(x, axis));
  }

  // The k best elements in order: each round takes the best of the elements that come after the one
  // taken last. Ties go to the lower index.
  void PlanTopK() {
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis];
    const Expr count = node_.result(0)->type.shape[axis];
    const Dtype dtype = x->type.dtype;
    const std::string type = CTypeName(dtype);
    // Whether `a` comes before `b` in the result, regardless of their positions. NaN is the
    // largest.
    const auto precedes = [&](const CExpr& a, const CExpr& b) {
      const bool largest = node_.Int("largest") != 0;
      if (!IsFloat(dtype)) return largest ? a > b : a < b;
      builder_.Use("order.cuh");
      return largest ? Call("IsAbove", {a, b}) : Call("IsAbove", {b, a});
    };
    const auto line = OpenLines(Without(x->type.shape, axis));
    builder_.Comment(
        "top_k: each round takes the best element that comes after the one taken last");
    const std::string taken = builder_.Unique("taken"), taken_at = builder_.Unique("taken_at");
    const std::string best = builder_.Unique("best"), best_at = builder_.Unique("best_at");
    builder_.Declare(type, taken, Literal(0, dtype));
    builder_.Declare(type_, taken_at, -1);
    OpenLoop("k", count);
    builder_.Declare(type, best, Literal(0, dtype));
    builder_.Declare(type_, best_at, -1);
    OpenLoop("column", length);
    const Scalar element = lowering_.Evaluate(x, Insert(line, axis, Variable("column")));
    const CExpr& e = element.value;
    const CExpr column = "column", none = 0;
    const CExpr is_left = builder_.Let("bool", "is_left",
                                       Or(Or(taken_at < none, precedes(taken, e)),
                                          And(Not(precedes(e, taken)), column > taken_at)));
    builder_.Append(
        Statement::If(And(is_left, Or(best_at < none, precedes(e, best))),
                      {Statement::Assign(best, e), Statement::Assign(best_at, column)}));
    CloseLoop("column", length, Extent(x, axis));
    builder_.Assign(taken, best);
    builder_.Assign(taken_at, best_at);
    const auto place = Insert(line, axis, Variable("k"));
    const Scalar results[] = {{best, dtype}, {best_at, Dtype::kI64}};
    const auto& outputs = region_.body->outputs;  // values, positions or both, if they are used
    for (size_t i = 0; i < outputs.size(); ++i) {
      lowering_.Store(static_cast<int>(i), place, results[outputs[i]->result_index]);
    }
    CloseLoop("k", count, Only({0, "best_count", "elements taken per line"}));
  }

  // `place` = how(place, update)
  void Update(const CExpr& place, const CExpr& update, Dtype dtype) {
    const std::string& how = node_.Get<std::string>("reduction");
    CExpr old = place;
    if (dtype == Dtype::kF16 || dtype == Dtype::kBF16) old = Call("ToFloat", {place});
    CExpr value = update;
    if (how == "add") value = dtype == Dtype::kBool ? Or(old, update) : old + update;
    if (how == "mul") value = dtype == Dtype::kBool ? And(old, update) : old * update;
    if (how == "max" || how == "min") {
      builder_.Use("block_reduce.cuh");
      value = Combined(how == "max" ? "LargerOf" : "SmallerOf", dtype, old, update);
    }
    builder_.Assign(place, ToMemory(value, dtype));
  }

  CExpr ResultAt(ArrayRef<Expr> index) {
    const Value* result = region_.result(0);
    const CExpr buffer = builder_.Buffer(result, /*written=*/true);
    return buffer[builder_.Write(Linearize(index, result->type.shape, builder_.ranges()),
                                 PlaceIn(buffer.word(), result->type.shape))];
  }

  // An index that was read from data, checked against an axis of the first operand.
  CExpr CheckedIndex(const Scalar& data, int64_t axis, const Value* tensor, const Expr& at) {
    const Expr& extent = node_.operand(0)->type.shape[axis];
    const Value* outside = lowering_.Outside(tensor);
    const int number = builder_.AddSite(builder_.SiteOf(node_, outside, extent));
    return Call("CheckedIndex",
                {data.value, builder_.Write(extent, Extent(node_.operand(0), axis)), "errors",
                 builder_.SiteName(number),
                 builder_.Write(at, PlaceIn(NameOf(builder_, outside), tensor->type.shape))});
  }

  void PlanScatterElements() {
    const Value* x = node_.operand(0);
    const Value* indices = node_.operand(1);
    const Value* updates = node_.operand(2);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis];
    const auto line = OpenLines(Without(x->type.shape, axis));
    builder_.Comment("scatter_elements: copy the line, then write the updates in their order");
    OpenLoop("column", length);
    const auto place = Insert(line, axis, Variable("column"));
    lowering_.Store(0, place, lowering_.Evaluate(x, place));
    CloseLoop("column", length, Extent(x, axis));

    // Lines beyond the dims of the indices receive no updates.
    const Shape index_lines = Without(indices->type.shape, axis);
    CExpr inside;
    for (size_t i = 0; i < index_lines.size(); ++i) {
      if (builder_.ranges().ProvenLess(line[i], index_lines[i])) continue;
      const SizeNames extent = Extent(indices, static_cast<int64_t>(i) < axis ? i : i + 1);
      const CExpr place = builder_.Write(line[i], extent);
      inside = And(inside, place < builder_.Write(index_lines[i], extent));
    }
    builder_.Open(/*is_branch=*/true);
    const Expr count = indices->type.shape[axis];
    OpenLoop("k", count);
    const auto source = Insert(line, axis, Variable("k"));
    const Scalar data = lowering_.Evaluate(indices, source);
    const std::string at =
        builder_.Let(type_, "target",
                     CheckedIndex(data, axis, indices,
                                  Linearize(source, indices->type.shape, builder_.ranges())));
    const Expr target = SetVariable(builder_.ranges(), at, 0, length - 1);
    const Scalar update = lowering_.Evaluate(updates, source);
    Update(ResultAt(Insert(line, axis, target)), update.value, x->type.dtype);
    CloseLoop("k", count, Extent(indices, axis));
    if (!inside.empty()) return builder_.CloseIf(inside);
    for (Statement& statement : builder_.Close()) builder_.Append(std::move(statement));
  }

  // There is one thread per position inside a slice. With slices as rows, the thread copies its
  // column of all slices and then writes the updates in their order.
  void PlanScatterNd() {
    const Value* x = node_.operand(0);
    const Value* indices = node_.operand(1);
    const Value* updates = node_.operand(2);
    const Shape& shape = x->type.shape;
    const Shape& index_shape = indices->type.shape;
    const auto depth = *index_shape.back().AsConstant();
    const Shape outer(shape.begin(), shape.begin() + depth),
        inner(shape.begin() + depth, shape.end());
    const auto line = OpenLines(inner, "column", "element", "of a slice");
    auto full = [&](Exprs at) {
      at.insert(at.end(), line.begin(), line.end());
      return at;
    };
    builder_.Comment("scatter_nd: copy this column, then write the updates in their order");
    const Expr slices = Product(outer);
    OpenLoop("row", slices);
    const auto place = full(Delinearize(Variable("row"), outer, builder_.ranges()));
    lowering_.Store(0, place, lowering_.Evaluate(x, place));
    CloseLoop("row", slices,
              depth == 1 ? Extent(x, 0) : Only({0, "slices", "slices of the result"}));

    const Shape tuples(index_shape.begin(), index_shape.end() - 1);
    const Expr count = Product(tuples);
    OpenLoop("k", count);
    auto tuple = Delinearize(Variable("k"), tuples, builder_.ranges());
    Exprs target;
    for (int64_t d = 0; d < depth; ++d) {
      auto source = tuple;
      source.push_back(d);
      const Scalar data = lowering_.Evaluate(indices, source);
      const std::string at = builder_.Let(
          type_, "target",
          CheckedIndex(data, d, indices, Linearize(source, index_shape, builder_.ranges())));
      target.push_back(SetVariable(builder_.ranges(), at, 0, outer[d] - 1));
    }
    const Scalar update = lowering_.Evaluate(updates, full(tuple));
    Update(ResultAt(full(target)), update.value, x->type.dtype);
    CloseLoop("k", count,
              tuples.size() == 1 ? Extent(indices, 0) : Only({0, "updates", "all updates"}));
  }

  const Node& region_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node& node_;
  std::string type_;
};

}  // namespace

KernelPlan PlanSequential(const Node& region, KernelBuilder& builder) {
  return SequentialPlanner(region, builder).Plan();
}

}  // namespace fusec
