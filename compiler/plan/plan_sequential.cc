#include <algorithm>
#include <numeric>

#include "compiler/ir/c_text.h"
#include "compiler/ir/sorted_parts.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/line_writer.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

// Scans and scatters: one thread processes each line along the op's axis in order, or a block takes
// its elements in a fixed order, so that results do not depend on how threads are scheduled.
class SequentialPlanner : LineWriter {
 public:
  SequentialPlanner(const Node& region, KernelBuilder& builder) : LineWriter(region, builder) {}

  KernelPlan Plan() {
    switch (node_.kind) {
      case OpKind::kCumProd:
      case OpKind::kCumSum:
        PlanRunningFold();
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
  // Whether a block works on each line, which then has enough elements for it.
  bool IsBlockScan() const {
    constexpr int64_t kShortLine = 32;
    constexpr int64_t kManyLines = 4096;  // enough for a thread each, which read side by side
    const Shape& shape = node_.operand(0)->type.shape;
    const auto axis = static_cast<size_t>(node_.Int("axis"));
    const auto lines = builder_.ranges().IntervalOf(Product(Without(shape, node_.Int("axis"))));
    return !is_cpu() && builder_.ranges().IntervalOf(shape[axis]).high > kShortLine &&
           (axis + 1 == shape.size() || lines.low < kManyLines);
  }

  // A block takes as many elements of a line at a time as it has threads.
  void PlanBlockScan() {
    constexpr int64_t kWarp = 32, kMostThreads = 1024, kOwn = 4;
    const bool is_sum = node_.kind == OpKind::kCumSum;
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis];
    const Dtype dtype = x->type.dtype;
    const int64_t threads = CeilDiv(builder_.ranges().IntervalOf(length).high, kOwn);
    for (const char* file : {"block_reduce.cuh", "block_scan.cuh"}) builder_.Use(file);
    const Exprs line = OpenBlocks(Without(x->type.shape, axis), threads, kMostThreads);
    const std::string type = CTypeName(dtype);
    const CExpr warps =
        builder_.expressions().Constant("warps", builder_.plan().block_size / kWarp, "of a block");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ " + type), CExpr("folds")[warps]));
    builder_.Comment(is_sum ? "cumsum: the running total of a line goes from thread to thread"
                            : "cumprod: the running product of a line goes from thread to thread");
    const std::string total = is_sum ? "total" : "product";
    builder_.Declare(type, total, Literal(is_sum ? 0 : 1, dtype));
    const CExpr count = builder_.Write(length, Extent(x, axis));
    const CExpr own =
        builder_.expressions().Constant("own", kOwn, "consecutive elements of a thread");
    builder_.Open();
    builder_.DefineVariable("first", 0, length - 1);
    builder_.Append(Statement::Declare(CExpr::Type(type), CExpr("elements")[own]));
    builder_.Declare(type, "own_" + total, Literal(is_sum ? 0 : 1, dtype));
    const auto combined = [&](const CExpr& a, const CExpr& b) { return is_sum ? a + b : a * b; };
    const bool in_vectors =
        axis + 1 == x->type.rank() && !node_.Int("reverse") && IsMultiple(length, kOwn);
    if (in_vectors) builder_.AppendLet("vector", "first" / own + "threadIdx.x");
    // Writes a loop over the elements of a thread, which are at `index`, if they exist.
    const auto for_own = [&](function_ref<void(const CExpr& element, const Exprs& index)> inside) {
      builder_.Open(/*is_branch=*/in_vectors);
      if (in_vectors) {
        builder_.DefineVariable("vector", 0, FloorDiv(length, kOwn, builder_.ranges()) - 1);
        builder_.expressions().NameFactor("vector", kOwn, own);
        builder_.OpenLanes({"lane", kOwn, true, "#pragma unroll", own});
        inside(CExpr("elements")["lane"],
               Insert(line, axis, Variable("vector") * kOwn + Variable("lane")));
        builder_.CloseLanes();
        return builder_.CloseIf("vector" * own < count);
      }
      builder_.AppendLet("k", "first" + CExpr("threadIdx.x") * own + "i");
      builder_.Open(/*is_branch=*/true);
      const Expr k = builder_.DefineVariable("k", 0, length - 1);
      inside(CExpr("elements")["i"], Insert(line, axis, node_.Int("reverse") ? length - 1 - k : k));
      builder_.CloseIf("k" < count);
      builder_.CloseFor(IntLoopHeader("i", 0, "i" < own), "#pragma unroll");
    };
    const auto each = [&](const CExpr& place, const CExpr& value) {
      builder_.Open();
      builder_.Assign(place, value);
      builder_.CloseFor(IntLoopHeader("i", 0, "i" < own), "#pragma unroll");
    };
    each(CExpr("elements")["i"], Literal(is_sum ? 0 : 1, dtype));
    for_own([&](const CExpr& element, const Exprs& index) {
      builder_.Assign(element, lowering_.Evaluate(x, index).value);
    });
    each("own_" + total, combined("own_" + total, CExpr("elements")["i"]));
    builder_.Declare(type, "running",
                     Call(Template("BlockScan", {is_sum ? "SumOf" : "ProductOf"}),
                          {"own_" + total, total, "folds"}));
    for_own([&](const CExpr& element, const Exprs& index) {
      const bool excludes = node_.Int("exclusive") != 0;
      if (excludes) lowering_.Store(0, index, {"running", dtype});
      builder_.Assign("running", combined("running", element));
      if (!excludes) lowering_.Store(0, index, {"running", dtype});
    });
    builder_.CloseFor(LoopHeader(builder_, "first", 0, count, own * BlockSizeName(builder_)));
  }

  void PlanRunningFold() {
    if (IsBlockScan()) return PlanBlockScan();
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

  // Writes all updates at once, since no two of them go to one place: one thread for each if they
  // fill the lines; else a block copies a line first.
  void PlanDistinctScatter() {
    constexpr int64_t kMostThreads = 512;
    const Value *x = node_.operand(0), *indices = node_.operand(1), *updates = node_.operand(2);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis], count = indices->type.shape[axis];
    const auto write = [&](const Exprs& source) {
      const Scalar data = lowering_.Evaluate(indices, source);
      const Expr position = Linearize(source, indices->type.shape, builder_.ranges());
      const std::string at =
          builder_.Let(type_, "target", CheckedIndex(data, axis, indices, position));
      Exprs place = source;
      place[axis] = SetVariable(builder_.ranges(), at, 0, length - 1);
      const Scalar update = lowering_.Evaluate(updates, source);
      builder_.Assign(ResultAt(place), ToMemory(update.value, x->type.dtype));
    };
    if (length == count) {
      const Exprs source = OpenLines(indices->type.shape, "row", "update", "of all lines");
      builder_.Comment("scatter_elements: the updates fill the lines");
      return write(source);
    }
    const int64_t all = builder_.ranges().IntervalOf(length).high;
    const Exprs line = OpenBlocks(Without(indices->type.shape, axis), all, kMostThreads);
    const auto for_threads = [&](const std::string& variable, const Expr& extent,
                                 const Value* value, function_ref<void(const Exprs&)> body) {
      OpenLoop(variable, extent);
      body(Insert(line, axis, Variable(variable)));
      builder_.CloseFor(LoopHeader(builder_, variable, "threadIdx.x",
                                   builder_.Write(extent, Extent(value, axis)),
                                   BlockSizeName(builder_)));
    };
    builder_.Comment("scatter_elements: copy the line, then write the updates");
    for_threads("column", length, x, [&](const Exprs& place) {
      lowering_.Store(0, place, lowering_.Evaluate(x, place));
    });
    builder_.AppendCall(Call("__syncthreads", {}));
    for_threads("k", count, indices, write);
  }

  // OpenLines on a CPU, whose threads take several lines that are side by side in memory at a time.
  // OpenTogether and CloseTogether enclose what is done for each of them.
  Exprs OpenLinesTogether(ShapeRef lines, const std::string& variable, const std::string& line,
                          const std::string& where) {
    constexpr int64_t kMostTogether = 16;  // a cache line of floats
    if (is_cpu() && !lines.empty())
      together_ = std::gcd(lines.back().AsConstant().value_or(1), kMostTogether);
    if (together_ <= 1) return OpenLines(lines, variable, line, where);
    Shape vectors(lines);
    vectors.back() = *lines.back().AsConstant() / together_;
    first_ = OpenLines(vectors, variable, "group", "of " + line + "s side by side, " + where);
    first_.back() = first_.back() * together_;
    Exprs place = first_;
    place.back() = place.back() + Variable("lane");
    return place;
  }
  void OpenTogether() {
    if (together_ <= 1) return;
    const CExpr lanes = builder_.expressions().Constant("lanes", together_, "lines of a thread");
    builder_.OpenLanes({"lane", together_, false, "", lanes});
  }
  void CloseTogether() {
    if (together_ > 1) builder_.CloseLanes();
  }

  void PlanScatterElements() {
    const bool is_whole = Without(node_.operand(0)->type.shape, node_.Int("axis")) ==
                          Without(node_.operand(1)->type.shape, node_.Int("axis"));
    if (!is_cpu() && node_.Has(kDistinct) && is_whole) return PlanDistinctScatter();
    const Value* x = node_.operand(0);
    const Value* indices = node_.operand(1);
    const Value* updates = node_.operand(2);
    const int64_t axis = node_.Int("axis");
    const Expr length = x->type.shape[axis];
    const Shape lines = Without(x->type.shape, axis);
    const bool are_side_by_side = is_whole && axis + 1 < x->type.rank();
    const auto line = are_side_by_side ? OpenLinesTogether(lines, "row", "line", "along the axis")
                                       : OpenLines(lines);
    builder_.Comment("scatter_elements: copy the line, then write the updates in their order");
    OpenLoop("column", length);
    OpenTogether();
    const auto place = Insert(line, axis, Variable("column"));
    lowering_.Store(0, place, lowering_.Evaluate(x, place));
    CloseTogether();
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
    OpenTogether();
    const auto source = Insert(line, axis, Variable("k"));
    const Scalar data = lowering_.Evaluate(indices, source);
    // Lines with the same index check it once.
    const bool is_shared = together_ > 1 && !builder_.DependsOnLane(data.value);
    const Exprs checked = is_shared ? Insert(first_, axis, Variable("k")) : source;
    const std::string at =
        builder_.Let(type_, "target",
                     CheckedIndex(data, axis, indices,
                                  Linearize(checked, indices->type.shape, builder_.ranges())));
    const Expr target = SetVariable(builder_.ranges(), at, 0, length - 1);
    const Scalar update = lowering_.Evaluate(updates, source);
    Update(ResultAt(Insert(line, axis, target)), update.value, x->type.dtype);
    CloseTogether();
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
    const auto line = OpenLinesTogether(inner, "column", "element", "of a slice");
    auto full = [&](Exprs at) {
      at.insert(at.end(), line.begin(), line.end());
      return at;
    };
    builder_.Comment("scatter_nd: copy this column, then write the updates in their order");
    const Expr slices = Product(outer);
    OpenLoop("row", slices);
    OpenTogether();
    const auto place = full(Delinearize(Variable("row"), outer, builder_.ranges()));
    lowering_.Store(0, place, lowering_.Evaluate(x, place));
    CloseTogether();
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
    OpenTogether();
    const Scalar update = lowering_.Evaluate(updates, full(tuple));
    Update(ResultAt(full(target)), update.value, x->type.dtype);
    CloseTogether();
    CloseLoop("k", count,
              tuples.size() == 1 ? Extent(indices, 0) : Only({0, "updates", "all updates"}));
  }

  int64_t together_ = 1;  // lines of a thread of a CPU
  Exprs first_;           // the coordinates of the first of these, if there are several
};

}  // namespace

KernelPlan PlanSequential(const Node& region, KernelBuilder& builder) {
  switch (region.body->nodes.back()->kind) {
    case OpKind::kDigitCounts:
    case OpKind::kOrderByDigit:
      return PlanDigits(region, builder);
    case OpKind::kLowerBounds:
    case OpKind::kMergeSorted:
      return PlanSearch(region, builder);
    case OpKind::kTopK:
      return PlanSort(region, builder);
    default:
      break;
  }
  return SequentialPlanner(region, builder).Plan();
}

}  // namespace fusec
