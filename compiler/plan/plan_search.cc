#include "compiler/ir/c_text.h"
#include "compiler/plan/sort_writer.h"

namespace fusec {

namespace {

constexpr int kEnds = 2;  // of the elements of a block

// Kernels that search in sorted elements.
class SearchPlanner : SortWriter {
 public:
  SearchPlanner(const Node& region, KernelBuilder& builder) : SortWriter(region, builder) {}

  KernelPlan Plan() {
    if (node_.kind == OpKind::kMergeSorted)
      PlanMerge();
    else
      PlanLowerBounds();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  // A pointer to the elements of a line of `value`, from element `first` of it on, and how far they
  // are apart.
  CExpr Line(const Value* value, const Exprs& line, const Expr& first) {
    const Value* outside = lowering_.Outside(value);
    const CExpr buffer = builder_.Buffer(outside);
    const Shape& shape = value->type.shape;
    const Expr place = Linearize(Insert(line, node_.Int("axis"), first), shape, builder_.ranges());
    return PointerTo(builder_, buffer, place, PlaceIn(buffer.word(), shape));
  }
  CExpr Stride(const Value* value) {
    const Shape& shape = value->type.shape;
    const int64_t axis = node_.Int("axis");
    const Expr stride = Product(Shape(shape.begin() + axis + 1, shape.end()));
    return WriteSize(builder_, stride,
                     Only(ElementsOf(NameOf(builder_, lowering_.Outside(value)), shape,
                                     static_cast<size_t>(axis) + 1)));
  }

  // One thread per kept element: its rank is the number of elements before it, in its own part and
  // in each of the others.
  void PlanMerge() {
    const Value *values = node_.operand(0), *places = node_.operand(1);
    const int64_t axis = node_.Int("axis");
    const SortedParts parts = PartsOfMerge(node_, builder_.ranges());
    const Expr& k = node_.Get<Exprs>("k")[0];
    for (const char* file : {"order.cuh", "count_before.cuh"}) builder_.Use(file);
    const Shape lines = Without(values->type.shape, axis);
    const Expr segments = Product(lines) * parts.parts;
    OpenThreads(segments * parts.kept, "element", "element", "of the parts");
    const CExpr kept = builder_.Write(parts.kept, KeptNames());
    builder_.AppendLet("rank_in_part", "element" % kept);
    const Expr in_part = builder_.DefineVariable("rank_in_part", 0, parts.kept - 1);
    builder_.AppendLet("segment", "element" / kept);
    const auto [line_number, number] = LineAndPart("segment", parts);
    const Merge merge = OpenMerge(parts, Coordinates(builder_, line_number, lines, "line"), number);
    const bool has_bounds = DeclareBounds(merge);
    const Exprs source = Insert(merge.line, axis, number * parts.kept + in_part);
    if (parts.KeptOf(number, builder_.ranges()) != parts.kept)
      LeaveBehindTheLast(builder_.Write(in_part, {}) >= KeptOf(merge, number), source);
    builder_.Comment("merge_sorted: the rank is the number of elements before this one");
    const Scalar value = lowering_.Evaluate(values, source);
    builder_.Declare(type_, "rank", builder_.Write(in_part, {}));
    CExpr best;
    if (!node_.Has(kGroup))
      best = builder_.Write(k, Only({0, "best_count", "elements taken per line"}));
    const auto count_in = [&](const CExpr& first, const CExpr& last, const char* or_equal) {
      builder_.Open();
      const Expr other = builder_.DefineVariable("other", 0, parts.parts - 1);
      builder_.Assign("rank",
                      CExpr("rank") + CountIn(merge, other, or_equal, value.value, has_bounds));
      Statement header = LoopHeader(builder_, "other", first, last);
      if (!best.empty()) header.condition = And(header.condition, "rank" < best);
      builder_.CloseFor(std::move(header));
    };
    count_in(merge.first, merge.own, "true");
    count_in(merge.own + 1, merge.end, "false");
    if (!best.empty()) builder_.AppendIf(CExpr("rank") >= best, "return");
    Expr rank = SetVariable(builder_.ranges(), "rank", 0, k - 1);
    if (node_.Has(kGroup)) {
      SetVariable(builder_.ranges(), "rank", 0, parts.kept * node_.Int(kGroup) - 1);
      rank = builder_.DefineVariable("first_part", 0, parts.parts - 1) * parts.kept + rank;
    }
    const Scalar place = lowering_.Evaluate(places, source);
    StoreElement(Insert(merge.line, axis, rank), value.value, place.value);
  }

  // The parts that are put together, first..end, and the one of a thread's element, `own`.
  struct Merge {
    const SortedParts& parts;
    Exprs line;
    Expr number;
    CExpr first, own, end;
  };
  Merge OpenMerge(const SortedParts& parts, const Exprs& line, const Expr& number) {
    const CExpr own = builder_.Write(number, {});
    const CExpr count = builder_.Write(parts.parts, CountOf("parts", "of a line"));
    if (!node_.Has(kGroup)) return {parts, line, number, 0, own, count};
    const CExpr group =
        builder_.expressions().Constant("group", node_.Int(kGroup), "parts that are put together");
    builder_.AppendLet("first_part", own / group * group);
    builder_.AppendLet("end_part", Min(CExpr("first_part") + group, count));
    return {parts, line, number, "first_part", own, "end_part"};
  }

  CExpr Ends() {
    return builder_.expressions().Constant("ends", kEnds, "of the elements of a block");
  }
  // The elements that are kept of a part.
  CExpr KeptOf(const Merge& merge, const Expr& part) {
    return WriteSize(builder_, merge.parts.KeptOf(part, builder_.ranges()), PartNames());
  }

  // If all elements of a block are of one part: declares the local `bounds`, with the numbers of
  // elements of each other part that come before the first and before the last of them.
  bool DeclareBounds(const Merge& merge) {
    const int block_size = builder_.plan().block_size;
    const SortedParts& parts = merge.parts;
    const int64_t axis = node_.Int("axis");
    const int64_t kept = parts.kept.AsConstant().value_or(0);
    const int64_t most = node_.Has(kGroup) ? node_.Int(kGroup) : Most(parts.parts);
    if (is_cpu() || kept == 0 || kept % block_size != 0 || most > kMostParts) return false;
    builder_.Comment(
        "The block's elements are in order: where the first and the last would be in other parts");
    const CExpr bounds =
        builder_.expressions().Constant("bounds", kEnds * most, "two of each part that is merged");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ int"), CExpr("bounds")[bounds]));
    builder_.Open(/*is_branch=*/true);
    const CExpr of_thread = "threadIdx.x" / Ends();
    builder_.AppendLet("other", node_.Has(kGroup) ? merge.first + of_thread : of_thread);
    const Expr other = builder_.DefineVariable("other", 0, parts.parts - 1);
    builder_.Open(/*is_branch=*/true);
    builder_.AppendLet("first", CExpr("rank_in_part") - "threadIdx.x");
    const CExpr first = "first";
    builder_.AppendLet("last",
                       Min(first + BlockSizeName(builder_), KeptOf(merge, merge.number)) - 1);
    // There is no first one behind the last element of the line.
    builder_.AppendLet("end",
                       Conditional(Equal("threadIdx.x" % Ends(), 0), Min(first, "last"), "last"));
    const Expr end = builder_.DefineVariable("end", 0, parts.kept - 1);
    const Scalar value = lowering_.Evaluate(
        node_.operand(0), Insert(merge.line, axis, merge.number * parts.kept + end));
    const auto count = [&](const char* or_equal) {
      return CountIn(merge, other, or_equal, value.value, /*has_bounds=*/false);
    };
    const CExpr bound = CExpr("bounds")["threadIdx.x"];
    Statement before =
        Statement::If(CExpr("other") < merge.own, {Statement::Assign(bound, count("true"))});
    before.otherwise = {Statement::Assign(bound, count("false"))};
    builder_.Append(std::move(before));
    builder_.CloseIf(CExpr("other") < merge.end);
    builder_.CloseIf("threadIdx.x" < bounds);
    builder_.AppendCall("__syncthreads()");
    return true;
  }

  // How many elements of part `other` come before `value`.
  CExpr CountIn(const Merge& merge, const Expr& other, const char* or_equal, const CExpr& value,
                bool has_bounds) {
    const Value* values = node_.operand(0);
    const CExpr function =
        Template(has_bounds ? "CountBetween" : "CountBefore", {Order(), or_equal});
    std::vector<CExpr> arguments = {Line(values, merge.line, other * merge.parts.kept),
                                    Stride(values)};
    const CExpr number = builder_.Write(other, {});
    if (has_bounds)
      arguments.push_back(CExpr("bounds") +
                          (node_.Has(kGroup) ? number - merge.first : number) * Ends());
    else
      arguments.push_back(Cast("int", KeptOf(merge, other)));
    arguments.push_back(value);
    return Call(function, std::move(arguments));
  }

  // Ends threads for elements that the last part lacks; in a group, these stay behind it.
  void LeaveBehindTheLast(const CExpr& is_behind, const Exprs& place) {
    builder_.Open(/*is_branch=*/true);
    if (node_.Has(kGroup)) {
      const int64_t axis = node_.Int("axis");
      const CExpr length =
          builder_.Write(node_.operand(0)->type.shape[axis], Extent(node_.operand(0), axis));
      builder_.Open(/*is_branch=*/true);
      StoreElement(place, Literal(0, node_.operand(0)->type.dtype), -1);
      builder_.CloseIf(builder_.Write(place[axis], PartNames()) < length);
    }
    builder_.AppendCall("return");
    builder_.CloseIf(is_behind);
  }

  // One thread per number.
  void PlanLowerBounds() {
    const Value* sorted = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Dtype dtype = sorted->type.dtype;
    for (const char* file : {"order.cuh", "count_before.cuh"}) builder_.Use(file);
    Shape lines = Without(sorted->type.shape, axis);
    lines.push_back(node_.Get<Exprs>("rows")[0] + 1);
    Exprs line = OpenLines(lines, "row", "number", "to be searched");
    const Expr number = line.back();
    line.pop_back();
    builder_.Comment("lower_bounds: the elements of the line that are below the number");
    const CExpr length = WriteSize(builder_, sorted->type.shape[axis], Extent(sorted, axis));
    const CExpr below = Call(Template("CountBefore", {"false", "false"}),
                             {Line(sorted, line, 0), Stride(sorted), length,
                              Cast(CTypeName(dtype), builder_.Write(number, {}))});
    lowering_.Store(0, Insert(line, axis, number), {below, Dtype::kI64});
  }
};

}  // namespace

KernelPlan PlanSearch(const Node& region, KernelBuilder& builder) {
  return SearchPlanner(region, builder).Plan();
}

}  // namespace fusec
