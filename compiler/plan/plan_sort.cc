#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "compiler/ir/c_text.h"
#include "compiler/ir/sorted_parts.h"
#include "compiler/plan/sort_writer.h"

namespace fusec {

namespace {

constexpr int64_t kFewComparisons = 64;  // a thread sorts a line alone
constexpr int64_t kLeastTogether = 512;  // elements that a block sorts, if lines are short
constexpr int kMostThreads = 512;        // per block
constexpr int64_t kMostExchanged = 4;    // keys of a thread that pass through shared memory at once
// Fewer than one of so many elements are chosen before they are sorted.
constexpr int64_t kFewOf = 4;

int64_t PowerOfTwoFrom(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

class SortPlanner : SortWriter {
 public:
  SortPlanner(const Node& region, KernelBuilder& builder) : SortWriter(region, builder) {}

  KernelPlan Plan() {
    PlanTopK();
    CountTraffic(region_, builder_.plan());
    return builder_.Finish();
  }

 private:
  void PlanTopK() {
    const SortedParts parts = PartsOfTopK(node_, builder_.ranges());
    const int64_t elements = Most(parts.part), kept = Most(parts.kept);
    const bool is_short = elements <= kMostSorted && elements * kept <= kFewComparisons;
    const bool chooses = !is_cpu() && elements <= kMostChosenFrom && kept <= kMostChosen &&
                         (elements > kMostSorted || kept * kFewOf < elements);
    const bool fits = chooses || (is_cpu() ? kept : elements) <= kMostSorted;
    if (!node_.Has(kPart) && (is_short || !fits)) return PlanRounds();
    UseKeys();
    if (is_cpu())
      PlanHeap(parts);
    else if (chooses && elements > kLeastTogether)
      PlanChoice(parts);
    else
      PlanBlockSort(parts);
  }

  // Names the type of the keys of x.
  void UseKeys() {
    const Dtype dtype = node_.operand(0)->type.dtype;
    builder_.Use("sort_key.cuh");
    key_ = DtypeBytes(dtype) > 4 ? "SortKey64" : "SortKey32";
  }
  CExpr SortBits(const CExpr& value) { return Call(Template("SortBits", {Order()}), {value}); }

  // The k best elements in order: each round takes the best of the elements that come after the one
  // taken last. Ties go to the lower index.
  void PlanRounds() {
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
    StoreElement(place, best, best_at);
    CloseLoop("k", count, Only({0, "best_count", "elements taken per line"}));
  }

  // The position in its line of element `column` of part `number`.
  Expr Position(const Expr& number, const Expr& column, const SortedParts& parts,
                const std::string& name) {
    if (!node_.Has(kPart)) return column;
    const CExpr text = builder_.Write(number * parts.part + column, PartNames());
    return SetVariable(builder_.ranges(), builder_.Let(type_, name, text), 0, parts.length - 1);
  }

  // Stores element `rank` of part `number` in the order of the keys: the one that is at
  // `place_in_part`, if there are so many elements.
  void StoreKey(const Exprs& line, const Expr& rank, const SortedParts& parts, const Expr& number,
                const CExpr& is_there, const CExpr& place_in_part) {
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Dtype dtype = x->type.dtype;
    const Exprs place = Insert(line, axis, number * parts.kept + rank);
    const bool may_be_missing = node_.Has(kPart);
    const std::string at = builder_.Unique("at"), value = builder_.Unique("value");
    const auto find = [&] {
      const std::string in_part = builder_.Let(type_, "place", Cast(type_, place_in_part));
      const Expr column = SetVariable(builder_.ranges(), in_part, 0, parts.part - 1);
      return Position(number, column, parts, "source");
    };
    if (!may_be_missing) {
      const Expr source = find();
      const Scalar element = lowering_.Evaluate(x, Insert(line, axis, source));
      StoreElement(place, element.value, builder_.Write(source, {}));
      return;
    }
    builder_.Declare(CTypeName(dtype), value, Literal(0, dtype));
    builder_.Declare(type_, at, -1);
    builder_.Open(/*is_branch=*/true);
    const Expr source = find();
    const Scalar element = lowering_.Evaluate(x, Insert(line, axis, source));
    builder_.Assign(value, element.value);
    builder_.Assign(at, builder_.Write(source, {}));
    builder_.CloseIf(is_there);
    StoreElement(place, value, at);
  }

  // A block sorts one part of a line, or several short lines.
  void PlanBlockSort(const SortedParts& parts) {
    const int64_t part = PowerOfTwoFrom(std::max<int64_t>(Most(parts.part), 2));
    const int64_t together = std::max(part, kLeastTogether);
    const int64_t own = together <= kLeastTogether ? 2 : together <= 2048 ? 4 : 8;
    const Shape lines = Without(node_.operand(0)->type.shape, node_.Int("axis"));
    const Expr segments = Product(lines) * parts.parts;
    KernelPlan& plan = builder_.plan();
    plan.block_size = static_cast<int>(together / own);
    plan.blocks = CeilDiv(segments, together / part, builder_.ranges());
    plan.launch_in_words = together > part    ? "a block sorts several lines"
                           : node_.Has(kPart) ? "a block sorts a part of a line"
                                              : "a block sorts a line";
    for (const char* file : {"sort_key.cuh", "sort_parts.cuh"}) builder_.Use(file);
    auto& constants = builder_.expressions();
    has_one_part_ = together == part;
    sorted_ = constants.Constant("sorted", part, "elements that are sorted together");
    own_ = constants.Constant("own", own, "elements of a thread");
    const CExpr exchanged = constants.Constant("together", std::min(own, kMostExchanged),
                                               "of these that move together");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ " + key_),
                                       CExpr("exchange")[exchanged * BlockSizeName(builder_)]));
    CExpr first = BlockNumber(builder_);
    if (together > part)
      first = first * constants.Constant("segments", together / part, "sorted by a block");
    builder_.AppendLet("first_segment", first);
    builder_.Comment("top_k: keys of the elements, which are sorted");
    builder_.Append(Statement::Declare(CExpr::Type(key_), CExpr("keys")[own_]));
    builder_.Declare("bool", "in_order", "true");
    LoadKeys(lines, parts, segments);
    const CExpr sort = Call(Template("SortParts", {sorted_, exchanged}), {"keys", "exchange"});
    builder_.Append(Statement::Let("bool", "stays", Call("__syncthreads_and", {"in_order"})));
    builder_.AppendIf(Not("stays"), sort);
    StoreKeys(lines, parts, segments);
  }

  // Inside the loop over a thread's elements: opens the branch for elements of a segment, whose
  // number in it is the local `column` below `columns`.
  std::pair<Exprs, Expr> OpenSegment(const Shape& lines, const SortedParts& parts,
                                     const Expr& segments, const std::string& column,
                                     const Expr& columns) {
    builder_.AppendLet("segment", "first_segment" + CExpr("element") / sorted_);
    builder_.AppendLet(column, "element" % sorted_);
    builder_.Open(/*is_branch=*/true);
    builder_.DefineVariable(column, 0, columns - 1);
    Expr number = 0, line = builder_.DefineVariable("segment", 0, segments - 1);
    if (node_.Has(kPart)) std::tie(line, number) = LineAndPart("segment", parts);
    return {Coordinates(builder_, line, lines, "line"), number};
  }
  void CloseSegment(const Expr& segments, const std::string& column, const Expr& columns,
                    const SizeNames& names) {
    const CExpr count = builder_.Write(segments, CountOf("all_segments", "parts of all lines"));
    builder_.CloseIf(And("segment" < count, column < builder_.Write(columns, names)));
  }
  void CloseElements() { builder_.CloseFor(IntLoopHeader("i", 0, "i" < own_), "#pragma unroll"); }

  // The number of element i of a thread if threads load elements that lie side by side, and once
  // the elements are sorted.
  CExpr SideBySide() { return "threadIdx.x" + CExpr("i") * BlockSizeName(builder_); }
  CExpr OneAfterTheOther() const { return "threadIdx.x" * own_ + "i"; }

  // The elements of one part may be loaded in any order, those of several parts not.
  void LoadKeys(const Shape& lines, const SortedParts& parts, const Expr& segments) {
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const CExpr key = CExpr("keys")["i"], column = "column";
    builder_.Open();
    builder_.AppendLet("element", has_one_part_ ? SideBySide() : OneAfterTheOther());
    builder_.Assign(key, Call(Template("NoElement", {key_}), {}));
    const auto [line, number] = OpenSegment(lines, parts, segments, "column", parts.part);
    const Expr at = Position(number, Variable("column"), parts, "at");
    const auto load = [&, line = line] {
      const auto key_at = [&](const Expr& place, const CExpr& place_text) {
        const Scalar element = lowering_.Evaluate(x, Insert(line, axis, place));
        return Call("KeyOf", {SortBits(element.value), Cast(CExpr::Type("unsigned"), place_text)});
      };
      builder_.Assign(key, key_at(at, column));
      builder_.Open(/*is_branch=*/true);
      const CExpr before = key_at(at - 1, column - 1);
      builder_.Assign("in_order", And("in_order", Call("ComesBefore", {before, key})));
      builder_.CloseIf(column > 0);
    };
    if (node_.Has(kPart)) {
      builder_.Open(/*is_branch=*/true);
      load();
      builder_.CloseIf(builder_.Write(at, {}) < builder_.Write(parts.length, Extent(x, axis)));
    } else {
      load();
    }
    CloseSegment(segments, "column", parts.part, PartNames());
    CloseElements();
  }

  void StoreKeys(const Shape& lines, const SortedParts& parts, const Expr& segments) {
    builder_.Open();
    builder_.AppendLet("element", has_one_part_
                                      ? Conditional("stays", SideBySide(), OneAfterTheOther())
                                      : OneAfterTheOther());
    const auto [line, number] = OpenSegment(lines, parts, segments, "rank", parts.kept);
    builder_.Append(Statement::Let(CExpr::Type(key_), "key", CExpr("keys")["i"]));
    StoreKey(line, Variable("rank"), parts, number, NotEqual(Call("PlaceOf", {"key"}), "kNoPlace"),
             Call("PlaceOf", {"key"}));
    CloseSegment(segments, "rank", parts.kept, KeptNames());
    CloseElements();
  }
  // A block finds the first elements of a part of a line, and sorts these.
  void PlanChoice(const SortedParts& parts) {
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    const Dtype dtype = x->type.dtype;
    // A few more than are wanted: those that come up to a bound.
    const int64_t most = std::max<int64_t>(Most(parts.kept), 1);
    const int64_t chosen = PowerOfTwoFrom(most + most / 2);
    const int wanted = builder_.shape().block_size;
    KernelPlan& plan = builder_.plan();
    plan.block_size = wanted > 0 ? wanted : kMostThreads;
    const Shape lines = Without(x->type.shape, axis);
    plan.blocks = Product(lines) * parts.parts;
    plan.launch_in_words =
        node_.Has(kPart) ? "one block per part of a line" : "one block per line along the axis";
    for (const char* file : {"block_reduce.cuh", "sort_parts.cuh", "choose_first.cuh"})
      builder_.Use(file);
    auto& constants = builder_.expressions();
    constexpr int kWarp = 32;
    const CExpr warps = constants.Constant("two_per_warp", 2 * plan.block_size / kWarp, "counts");
    const int64_t keys = std::max<int64_t>(CeilDiv(chosen, plan.block_size), 2);
    const CExpr of_thread = constants.Constant("keys", keys, "that a thread sorts");
    const CExpr room = constants.Constant("chosen", chosen, "room for the first elements");
    const CExpr own = constants.Constant("own", CeilDiv(Most(parts.part), plan.block_size),
                                         "elements of a thread");
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ " + key_),
                                       CExpr("keys")[of_thread * BlockSizeName(builder_)]));
    builder_.Append(Statement::Declare(CExpr::Type("__shared__ int"), CExpr("counts")[warps]));
    builder_.AppendLet("segment", BlockNumber(builder_));
    Expr number = 0, line_number = builder_.DefineVariable("segment", 0, plan.blocks - 1);
    if (node_.Has(kPart)) std::tie(line_number, number) = LineAndPart("segment", parts);
    const Exprs line = Coordinates(builder_, line_number, lines, "line");
    const std::string bits = DtypeBytes(dtype) > 4 ? "unsigned long long" : "unsigned";
    const Expr there = Min(parts.part, parts.length - number * parts.part, builder_.ranges());
    builder_.AppendLet("elements",
                       builder_.Write(there, node_.Has(kPart) ? PartNames() : Extent(x, axis)));
    builder_.Comment("top_k: each thread holds some of the elements");
    builder_.Append(Statement::Declare(CExpr::Type(bits), CExpr("bits")[own]));
    builder_.Open();
    builder_.AppendLet("column", "threadIdx.x" + CExpr("i") * BlockSizeName(builder_));
    builder_.Assign(CExpr("bits")["i"], "kLastBits");
    builder_.Open(/*is_branch=*/true);
    const Expr column = builder_.DefineVariable("column", 0, parts.part - 1);
    const Expr at = Position(number, column, parts, "at");
    const Scalar element = lowering_.Evaluate(x, Insert(line, axis, at));
    builder_.Assign(CExpr("bits")["i"], SortBits(element.value));
    builder_.CloseIf("column" < CExpr("elements"));
    builder_.CloseFor(IntLoopHeader("i", 0, "i" < own), "#pragma unroll");
    const CExpr kept = builder_.Write(parts.kept, KeptNames());
    builder_.AppendCall(
        Call(Template("ChooseFirst", {room, of_thread}), {"bits", kept, "keys", "counts"}));
    builder_.Open();
    const Expr rank = builder_.DefineVariable("rank", 0, parts.kept - 1);
    const CExpr key = CExpr("keys")["rank"];
    StoreKey(line, rank, parts, number, Call("PlaceOf", {key}) < CExpr("elements"),
             Call("PlaceOf", {key}));
    builder_.CloseFor(LoopHeader(builder_, "rank", "threadIdx.x", kept, BlockSizeName(builder_)));
  }

  // On the CPU, the first elements of a line so far are in a heap.
  void PlanHeap(const SortedParts& parts) {
    const Value* x = node_.operand(0);
    const int64_t axis = node_.Int("axis");
    Shape lines = Without(x->type.shape, axis);
    lines.push_back(parts.parts);
    Exprs line = OpenLines(lines);
    const Expr number = line.back();
    line.pop_back();
    builder_.Use("keep_first.cuh");
    builder_.Comment("top_k: a heap of the elements that are first so far");
    auto& constants = builder_.expressions();
    const int64_t most = std::max<int64_t>(Most(parts.kept), 1);
    const CExpr in_heap = constants.Constant("most_kept", most, "elements in the heap");
    builder_.Append(Statement::Declare(CExpr::Type(key_), CExpr("first")[in_heap]));
    builder_.Declare(type_, "count", 0);
    const CExpr kept = builder_.Write(parts.kept, KeptNames());
    const Expr there = Min(parts.part, parts.length - number * parts.part, builder_.ranges());
    OpenLoop("column", there);
    const Scalar element =
        lowering_.Evaluate(x, Insert(line, axis, number * parts.part + Variable("column")));
    const CExpr key =
        Call("KeyOf", {SortBits(element.value), Cast(CExpr::Type("unsigned"), CExpr("column"))});
    builder_.Assign("count", Call("KeepFirst", {"first", "count", kept, key}));
    CloseLoop("column", there, node_.Has(kPart) ? PartNames() : Extent(x, axis));
    builder_.AppendCall(Call("SortHeap", {"first", "count"}));
    OpenLoop("rank", parts.kept);
    StoreKey(line, Variable("rank"), parts, number, CExpr("rank") < CExpr("count"),
             Call("PlaceOf", {CExpr("first")["rank"]}));
    CloseLoop("rank", parts.kept, KeptNames());
  }

  std::string key_;           // the type of keys
  bool has_one_part_ = true;  // a block sorts one part
  CExpr sorted_, own_;        // constants: elements that are sorted together, and those of a thread
};

}  // namespace

KernelPlan PlanSort(const Node& region, KernelBuilder& builder) {
  return SortPlanner(region, builder).Plan();
}

}  // namespace fusec
