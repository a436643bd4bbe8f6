#include "passes/sort_scatters.h"

#include <algorithm>

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/sorted_parts.h"
#include "passes/checked_indices.h"

namespace fusec {

namespace {

// A kernel that writes the updates of a place one after the other is as fast if there are few of
// both. An update takes as long as copying that many places.
constexpr int64_t kFewPlaces = 512;
constexpr int64_t kPlacesPerUpdate = 32;

// Scatters along `axis` of lines with `rows` places.
struct Lines {
  Value* data;     // [.., rows, ..]
  Value* indices;  // [.., n, ..], or [n] if they hold for whole slices of `updates`
  Value* updates;  // [.., n, ..]
  int64_t axis;
  Expr rows, count;  // count: n
};

// Builds the replacement of one scatter.
class Rewrite {
 public:
  Rewrite(const Node& node, const Ranges& ranges, Builder& builder)
      : node_(node),
        ranges_(ranges),
        builder_(builder),
        how_(node.Get<std::string>("reduction")),
        dtype_(node.result()->type.dtype) {}

  // Null, and no node was made, if the scatter stays as it is.
  Value* Replacement() {
    if (!IsSupported()) return nullptr;
    if (HasDistinctPlaces()) return Marked();
    const bool is_nd = node_.kind == OpKind::kScatterND;
    if (is_nd ? NdIsSmall() : LinesAreSmall()) return nullptr;
    Value* made = is_nd ? OfTuples() : OfLines();
    return made == nullptr ? nullptr : ReshapeTo(builder_, made, Data()->type.shape, name());
  }

 private:
  using Kind = OpKind;
  const std::string& name() const { return node_.result()->name; }
  Value* Data() const { return node_.operand(0); }
  Value* Indices() const { return node_.operand(1); }
  Value* Updates() const { return node_.operand(2); }
  Value* Make(OpKind kind, ValueList operands, const std::string& hint,
              Attributes attributes = {}) {
    return builder_.Make(kind, std::move(operands), std::move(attributes), name() + "_" + hint);
  }
  Value* Integer(double value) { return builder_.Scalar(Dtype::kI64, value); }

  bool IsSupported() const {
    if (IsInPlace(node_) || how_ == "mul") return false;
    return how_ == "none" || (dtype_ != Dtype::kBool && (how_ == "add" || IsFloat(dtype_)));
  }
  // Whether the indices are those of elements that a sort along the same axis took.
  bool HasDistinctPlaces() const {
    const Node* sort = ProducerOf(Indices(), Kind::kTopK);
    if (sort == nullptr || node_.kind != Kind::kScatterElements || how_ != "none") return false;
    return Indices()->result_index == 1 && sort->Int("axis") == Axis();
  }
  Value* Marked() {
    if (node_.Has(kDistinct)) return nullptr;
    Attributes attributes = node_.attributes;
    attributes[kDistinct] = int64_t{1};
    // If the updates fill the data, nothing of it is left, and any data of that shape will do.
    ValueList operands = node_.operands;
    if (Updates()->type.shape == Data()->type.shape) operands[0] = Updates();
    return builder_.Make(node_.kind, operands, std::move(attributes), name());
  }
  bool AreFew(const Expr& places, const Expr& updates) const {
    return ranges_.IntervalOf(places + updates * kPlacesPerUpdate).high <= kFewPlaces;
  }
  bool HasUpdates(const Expr& count) const { return ranges_.ProvenNonNegative(count - 1); }

  // For a scatter_nd: the places are tuples of coordinates, the first axes of the data.
  size_t Depth() const { return static_cast<size_t>(*Indices()->type.shape.back().AsConstant()); }
  Shape Outer() const {
    const Shape& shape = Data()->type.shape;
    return Shape(shape.begin(), shape.begin() + static_cast<int64_t>(Depth()));
  }
  Expr Tuples() const {
    const Shape& shape = Indices()->type.shape;
    return Product(Shape(shape.begin(), shape.end() - 1));
  }
  bool NdIsSmall() const {
    return Depth() == 0 || AreFew(Product(Outer()), Tuples()) ||
           (how_ == "none" && !HasUpdates(Tuples()));
  }
  Value* OfTuples() {
    const Shape outer = Outer(), &shape = Data()->type.shape;
    const Expr inner = Product(Shape(shape.begin() + static_cast<int64_t>(Depth()), shape.end()));
    const Expr rows = Product(outer), count = Tuples();
    Value* tuples = ReshapeTo(builder_, Indices(), {count, Expr(static_cast<int64_t>(Depth()))},
                              name() + "_tuples");
    Value* place = nullptr;
    Expr stride = 1;
    for (size_t d = Depth(); d-- > 0;) {
      const auto at = static_cast<int64_t>(d);
      Value* column =
          Depth() == 1 ? tuples : Sliced(builder_, tuples, 1, at, at + 1, name() + "_column");
      Value* inside = Inside(ReshapeTo(builder_, column, {count}, name() + "_column"), outer[d]);
      if (!stride.IsConstant(1)) inside = Make(Kind::kMul, {inside, Size(stride)}, "offset");
      place = place == nullptr ? inside : Make(Kind::kAdd, {place, inside}, "place");
      stride = stride * outer[d];
    }
    return Slices({ReshapeTo(builder_, Data(), {rows, inner}, name() + "_rows"), place,
                   ReshapeTo(builder_, Updates(), {count, inner}, name() + "_updates"), 0, rows,
                   count});
  }
  Value* Size(const Expr& size) {
    if (const auto number = size.AsConstant()) return Integer(static_cast<double>(*number));
    return Make(Kind::kSymbolicDims, {}, "size", {{"values", Exprs{size}}, {"scalar", int64_t{1}}});
  }

  // For a scatter_elements.
  int64_t Axis() const { return node_.Int("axis"); }
  bool IsLast() const { return Axis() + 1 == Data()->type.rank(); }
  // The indices as a vector, if all slices along the axis have the same ones; null otherwise.
  Value* SliceIndices() const {
    const Shape& shape = Indices()->type.shape;
    if (Axis() != 0) return nullptr;
    if (shape.size() == 1) return Indices();
    const Node* expand = ProducerOf(Indices(), Kind::kExpand);
    if (expand == nullptr) return nullptr;
    Value* source = expand->operand(0);
    const Shape& narrow = source->type.shape;
    const bool is_column = narrow.size() == shape.size() && narrow[0] == shape[0] &&
                           std::all_of(narrow.begin() + 1, narrow.end(),
                                       [](const Expr& d) { return d.IsConstant(1); });
    return is_column ? source : nullptr;
  }
  bool LinesAreSmall() const {
    const Shape &data = Data()->type.shape, &indices = Indices()->type.shape;
    const Expr& count = indices[Axis()];
    for (size_t i = 0; i < data.size(); ++i) {
      if (static_cast<int64_t>(i) != Axis() && data[i] != indices[i]) return true;
    }
    if (AreFew(data[Axis()], count) || (how_ == "none" && !HasUpdates(count))) return true;
    return how_ != "none" && !IsLast() && SliceIndices() == nullptr;
  }
  Value* OfLines() {
    const Expr &rows = Data()->type.shape[Axis()], &count = Indices()->type.shape[Axis()];
    if (Value* same = SliceIndices()) {
      const Shape& shape = Data()->type.shape;
      const Expr inner = Product(Shape(shape.begin() + 1, shape.end()));
      Value* place = Inside(ReshapeTo(builder_, same, {count}, name() + "_rows"), rows);
      return Slices({ReshapeTo(builder_, Data(), {rows, inner}, name() + "_rows"), place,
                     ReshapeTo(builder_, Updates(), {count, inner}, name() + "_updates"), 0, rows,
                     count});
    }
    return PerLine({Data(), Inside(Indices(), rows), Updates(), Axis(), rows, count});
  }

  Value* Inside(Value* indices, const Expr& extent) {
    return CheckedIndices(builder_, indices, extent, name());
  }
  // The places of the updates in order, and where those of each row begin and end.
  struct Sorted {
    Value *order, *begins, *ends;
  };
  Sorted Sort(const Lines& lines) {
    // Fewer bits are sorted faster.
    Value* places = InFewestBits(builder_, lines.indices, lines.rows, ranges_, name() + "_place");
    const auto sorted = builder_.Add(Kind::kTopK, {places},
                                     {{"axis", lines.axis},
                                      {"k", Exprs{lines.count}},
                                      {"largest", int64_t{0}},
                                      {"sorted", int64_t{1}},
                                      {kBelow, Exprs{lines.rows}}},
                                     name() + "_sorted");
    Value* bounds = Make(Kind::kLowerBounds, {(*sorted)->result(0)}, "bounds",
                         {{"axis", lines.axis}, {"rows", Exprs{lines.rows}}});
    return {(*sorted)->result(1), Rows(bounds, lines, 0, "begins"), Rows(bounds, lines, 1, "ends")};
  }
  Value* Rows(Value* bounds, const Lines& lines, int64_t from, const std::string& hint) {
    Exprs starts(bounds->type.shape.size(), Expr(0));
    starts[lines.axis] = from;
    Shape shape = bounds->type.shape;
    shape[lines.axis] = lines.rows;
    return Make(Kind::kSlice, {bounds}, hint,
                {{"starts", starts},
                 {"steps", std::vector<int64_t>(shape.size(), 1)},
                 {"shape", std::move(shape)}});
  }

  static bool AreZeros(const Value* value) {
    while (value->producer && value->producer->operands.size() == 1 &&
           value->producer->kind != Kind::kPad &&
           GetOpDef(value->producer->kind).op_class == OpClass::kView)
      value = value->producer->operand(0);
    const TensorData* data = Payload(value);
    if (data == nullptr) return false;
    for (int64_t i = 0; i < data->element_count(); ++i) {
      if (data->GetDouble(i) != 0) return false;
    }
    return data->element_count() > 0;
  }

  // Whole slices go to one place: data [rows, c], updates [n, c], indices [n].
  Value* Slices(const Lines& lines) {
    const Sorted sorted = Sort(lines);
    const Shape column = {lines.rows, Expr(1)};
    const auto as_column = [&](Value* rows) {
      return ReshapeTo(builder_, rows, column, rows->name + "_column");
    };
    const auto pick = [&](Value* places) {
      return Make(Kind::kGather, {lines.updates, places}, "picked", {{"axis", int64_t{0}}});
    };
    if (how_ == "none") {
      Value* has_update = Make(Kind::kLess, {sorted.begins, sorted.ends}, "has_update");
      Value* place =
          Make(Kind::kGather, {sorted.order, Last(sorted)}, "last_update", {{"axis", int64_t{0}}});
      return builder_.Make(Kind::kWhere, {as_column(has_update), pick(place), lines.data}, {},
                           name());
    }
    if (Value* counted = Counted(sorted, column)) return Combined(lines.data, counted);
    return Combined(lines.data, Bags(pick(sorted.order), sorted.begins, sorted.ends));
  }

  // Each line has places of its own.
  Value* PerLine(const Lines& lines) {
    const Sorted sorted = Sort(lines);
    const auto pick = [&](Value* from, Value* places, const std::string& hint) {
      return Make(Kind::kGatherElements, {from, places}, hint, {{"axis", lines.axis}});
    };
    if (how_ == "none") {
      Value* has_update = Make(Kind::kLess, {sorted.begins, sorted.ends}, "has_update");
      Value* place = pick(sorted.order, Last(sorted), "last_update");
      return builder_.Make(
          Kind::kWhere, {has_update, pick(lines.updates, place, "picked"), lines.data}, {}, name());
    }
    const Shape& shape = lines.data->type.shape;
    if (Value* counted = Counted(sorted, shape)) return Combined(lines.data, counted);
    // All lines behind each other, so that a bag is a range of updates.
    Shape of_line = shape;
    of_line.back() = 1;
    const Expr all = Product(of_line);
    Value* line = NumbersBelow(builder_, all, Dtype::kI64, name() + "_line");
    Value* first = Make(Kind::kMul, {line, Size(lines.count)}, "first_of_line");
    first = ReshapeTo(builder_, first, of_line, name() + "_first_of_line");
    const auto flat = [&](Value* bounds, const std::string& hint) {
      return ReshapeTo(builder_, Make(Kind::kAdd, {bounds, first}, hint), {all * lines.rows},
                       name() + "_" + hint);
    };
    Value* picked = ReshapeTo(builder_, pick(lines.updates, sorted.order, "picked"),
                              {all * lines.count}, name() + "_picked");
    Value* bags = Bags(picked, flat(sorted.begins, "begins"), flat(sorted.ends, "ends"));
    return Combined(lines.data, ReshapeTo(builder_, bags, shape, name() + "_bags"));
  }

  // The position of the last update of each row, or 0.
  Value* Last(const Sorted& sorted) {
    Value* last = Make(Kind::kSub, {sorted.ends, Integer(1)}, "last");
    return Make(Kind::kMax, {last, Integer(0)}, "last_or_first");
  }

  // If all updates are one number, their sums.
  Value* Counted(const Sorted& sorted, const Shape& shape) {
    const Value* source = Updates();
    while (source->producer != nullptr &&
           (source->producer->kind == Kind::kExpand || source->producer->kind == Kind::kReshape))
      source = source->producer->operand(0);
    const std::optional<double> number = ScalarConstant(source);
    if (how_ != "add" || !number) return nullptr;
    Value* count = Make(Kind::kSub, {sorted.ends, sorted.begins}, "updates");
    if (dtype_ != Dtype::kI64) count = Make(Kind::kCast, {count}, "updates", {{"to", dtype_}});
    count = ReshapeTo(builder_, count, shape, name() + "_updates");
    if (*number == 1) return count;
    return Make(Kind::kMul, {count, builder_.Scalar(dtype_, *number)}, "sums");
  }

  Value* Bags(Value* updates, Value* begins, Value* ends) {
    if (how_ == "min") updates = Make(Kind::kNeg, {updates}, "negative");
    Value* bags =
        Make(Kind::kSegmentReduce, {updates, begins, ends}, "bags",
             {{"mode", std::string(how_ == "add" ? "sum" : "max")}, {"zero_if_empty", int64_t{0}}});
    return how_ == "min" ? Make(Kind::kNeg, {bags}, "least") : bags;
  }
  // Sums of bags, which begin with 0, are never -0, so that adding 0 changes none of them.
  Value* Combined(Value* data, Value* bags) {
    if (how_ == "add" && AreZeros(data)) {
      const Shape& shape = data->type.shape;
      return bags->type.shape == shape ? bags
                                       : Make(Kind::kExpand, {bags}, "wide", {{"shape", shape}});
    }
    const Kind kind = how_ == "add" ? Kind::kAdd : how_ == "max" ? Kind::kMax : Kind::kMin;
    return builder_.Make(kind, {data, bags}, {}, name());
  }

  const Node& node_;
  const Ranges& ranges_;
  Builder& builder_;
  const std::string& how_;
  const Dtype dtype_;
};

}  // namespace

Result<bool> SortScatters(Graph& graph, const PassOptions&, PassReport&) {
  const Ranges ranges = graph.SymbolRanges();
  return ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    if (node.kind != OpKind::kScatterElements && node.kind != OpKind::kScatterND) return nullptr;
    return Rewrite(node, ranges, builder).Replacement();
  });
}

}  // namespace fusec
