#include "compiler/import/counted_rows.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/import/counted_views.h"
#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"
#include "compiler/ops/places.h"

namespace fusec {
namespace {

std::vector<int> CountedAxes(const Value* value) { return CountedAxes(value->type.shape); }

// Whether a size is not a sum of counts, so that no rule of this file applies.
bool IsUnclear(const Value* value) {
  return value != nullptr && !std::all_of(value->type.shape.begin(), value->type.shape.end(),
                                          [](const Expr& dim) { return IsSumOfCounts(dim); });
}
bool IsUnclear(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [](const Value* operand) { return IsUnclear(operand); }) ||
         std::any_of(node.results.begin(), node.results.end(),
                     [](const auto& result) { return IsUnclear(result.get()); });
}

template <typename Axes>
bool Has(const Axes& axes, int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Whether none of `axes` of `value` is counted.
bool AreWhole(const Value* value, const std::vector<int64_t>& axes) {
  return std::none_of(axes.begin(), axes.end(),
                      [&](int64_t axis) { return Has(CountedAxes(value), axis); });
}

bool IsRowLocalComposite(const Node& node) {
  const Value* x = node.operand(0);
  switch (node.kind) {
    case OpKind::kMean:
    case OpKind::kSum:
      return true;
    case OpKind::kLogSoftmax:
    case OpKind::kSoftmax:
      return AreWhole(x, {node.Int("axis")});
    case OpKind::kReduceL1:
    case OpKind::kReduceL2:
    case OpKind::kReduceLogSum:
    case OpKind::kReduceLogSumExp:
    case OpKind::kReduceSumSquare:
      return AreWhole(x, node.Ints("axes"));
    case OpKind::kLayerNormalization:
    case OpKind::kRMSNormalization:
      return AreWhole(x, AxesFrom(node.Int("axis"), x->type.rank()));
    case OpKind::kGemm:
      return AreWhole(x, {node.Int("transpose_a") != 0 ? 0 : 1});
    default:
      return false;
  }
}

// Whether no counted axis is summed over: all counted axes of the factors are rows, columns or
// batch axes of the product.
bool IsRowLocalProduct(const Node& product) {
  for (int i = 0; i < 2; ++i) {
    const Value* factor = product.operand(i);
    const char* const transposes = i == 0 ? "transpose_a" : "transpose_b";
    const bool is_transposed = product.Has(transposes) && product.Int(transposes) != 0;
    const int depth = factor->type.rank() - ((i == 0) == is_transposed ? 2 : 1);
    if (!AreWhole(factor, {depth})) return false;
  }
  return true;
}

int BatchAxis(const Node& recurrence) { return recurrence.Int("batch_first") != 0 ? 0 : 1; }

// The least or greatest value of a dtype, as a scalar.
TensorData Extremum(Dtype dtype, bool greatest) {
  if (IsFloat(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return TensorData::From<double>(dtype, {}, {greatest ? infinity : -infinity});
  }
  if (dtype == Dtype::kBool) return TensorData::From<int64_t>(dtype, {}, {greatest ? 1 : 0});
  const int unused_bits = 64 - 8 * DtypeBytes(dtype);
  if (IsUnsigned(dtype)) {
    const uint64_t most = std::numeric_limits<uint64_t>::max() >> unused_bits;
    return TensorData::From<int64_t>(dtype, {}, {greatest ? static_cast<int64_t>(most) : 0});
  }
  using Limits = std::numeric_limits<int64_t>;
  return TensorData::From<int64_t>(dtype, {},
                                   {(greatest ? Limits::max() : Limits::min()) >> unused_bits});
}

// Rebuilds one node so that its results do not depend on padding rows.
class Rewrite {
 public:
  Rewrite(const Node& node, CountLookup count_of, const Ranges& ranges, Builder& builder)
      : node_(node), count_of_(count_of), ranges_(ranges), builder_(builder), f_(builder) {}

  ValueList Results() {
    switch (node_.kind) {
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kGatherND:
        return LookUp();
      case OpKind::kScatterElements:
      case OpKind::kScatterND:
        return Scatter();
      case OpKind::kLogSoftmax:
      case OpKind::kReduceLogSumExp:
      case OpKind::kReduceMax:
      case OpKind::kSoftmax:
        return Fold(Extremum(ElementType(), false));
      case OpKind::kReduceMin:
        return Fold(Extremum(ElementType(), true));
      case OpKind::kConcat:
        return Concat();
      case OpKind::kReshape:
        return {ReshapeBeforeCounts(node_.operand(0), node_.result()->type.shape, count_of_, f_)};
      case OpKind::kCumProd:  // from the end
      case OpKind::kReduceProd:
        return Fold(TensorData::From<int64_t>(ElementType(), {}, {1}));
      case OpKind::kCumSum:  // from the end
      case OpKind::kReduceL1:
      case OpKind::kReduceL2:
      case OpKind::kReduceLogSum:
      case OpKind::kReduceSum:
      case OpKind::kReduceSumSquare:
        return Fold(TensorData(ElementType(), {}));
      case OpKind::kArgMax:
      case OpKind::kArgMin:
        if (node_.Int("select_last_index") != 0) return {};
        return Fold(Extremum(ElementType(), node_.kind == OpKind::kArgMin));
      case OpKind::kReduceMean:
        return Mean();
      case OpKind::kMatMul:
        return SumOfProducts();
      case OpKind::kRecurrence:
        return Sequences();
      case OpKind::kSegmentReduce:
        return Bags();
      case OpKind::kTopK:
        return TopK();
      default:
        return {};
    }
  }

 private:
  using Kind = OpKind;
  Dtype ElementType() const { return node_.operand(0)->type.dtype; }

  // Adds a copy of the node with other operands; empty if that fails.
  ValueList Again(ValueList operands) {
    const auto made = builder_.Add(node_.kind, operands, node_.attributes, node_.result()->name);
    if (!made) return {};
    ValueList results;
    for (const auto& result : (*made)->results) results.push_back(result.get());
    return results;
  }
  Value* Integer(int64_t value) {
    return builder_.Constant(TensorData::From<int64_t>(Dtype::kI64, {}, {value}));
  }
  // Whether each size is proven to be at least 1 after counts are replaced by their bounds.
  bool HaveElements(const Exprs& sizes) const {
    return std::all_of(sizes.begin(), sizes.end(), [&](const Expr& size) {
      const auto bound_of = [&](const std::string& symbol) -> std::optional<Expr> {
        if (!IsCounted(Expr::Symbol(symbol))) return std::nullopt;
        return ranges_.Find(symbol)->high;
      };
      Expr bound = size;
      while (IsCounted(bound)) bound = bound.Substitute(bound_of, ranges_);
      return ranges_.ProvenNonNegative(bound - 1);
    });
  }

  // x with its padding elements replaced by `other`.
  Value* Masked(Value* x, Value* other) {
    for (const int axis : CountedAxes(x)) {
      const Expr& rows = x->type.shape[axis];
      Value* count = SizeAsData(rows, count_of_, f_);
      Value* is_before = f_.Make(Kind::kLess, {f_.Iota(0, rows), count}, {}, "is_before_count");
      is_before = f_.AlongAxis(is_before, axis, x->type.rank());
      x = f_.Make(Kind::kWhere, {is_before, x, other}, {}, x->name);  // errors name indices by it
    }
    return x;
  }
  Value* Masked(Value* x, TensorData other) {
    return Masked(x, builder_.Constant(std::move(other), "neutral"));
  }

  ValueList Fold(TensorData neutral) {
    return Again({Masked(node_.operand(0), std::move(neutral))});
  }

  ValueList Mean() {
    Value* x = node_.operand(0);
    if (!IsFloat(x->type.dtype)) return {};
    Exprs folded;
    for (const int64_t axis : node_.Ints("axes")) folded.push_back(x->type.shape[axis]);
    const Dtype wide = ComputeDtype(x->type.dtype);
    Value* count = f_.Cast(SizeAsData(Product(folded), count_of_, f_), wide);
    Value* before = f_.Cast(Masked(x, TensorData(x->type.dtype, {})), wide);
    Value* sum =
        f_.Reduce(Kind::kReduceSum, before, node_.Ints("axes"), node_.Int("keepdims") != 0);
    return {f_.Cast(f_.Div(sum, count), x->type.dtype)};
  }

  ValueList Concat() {
    const ValueList joined = Again(node_.operands);
    const auto axis = static_cast<int>(node_.Int("axis"));
    if (joined.empty()) return {};
    return {ConcatBeforeCounts(joined[0], node_.operands, axis, count_of_, f_)};
  }

  // A sum of products over a counted axis. The padding of both factors becomes 0: if only one were
  // 0, an infinity in the other would give NaN.
  ValueList SumOfProducts() {
    ValueList factors;
    for (Value* factor : node_.operands) {
      factors.push_back(Masked(factor, TensorData(factor->type.dtype, {})));
    }
    return Again(std::move(factors));
  }

  // Padding sequences of the batch get length 0.
  ValueList Sequences() {
    Value* lengths = node_.operand(kLengths);
    const std::vector<int> batch = {BatchAxis(node_)};
    if (lengths == nullptr || CountedAxes(node_.operand(kGates)) != batch) return {};
    ValueList operands = node_.operands;
    operands[kLengths] = Masked(lengths, TensorData(lengths->type.dtype, {}));
    return Again(std::move(operands));
  }

  // Padding elements become a value that sorts last. Among equal elements the lower index comes
  // first, so that padding stays behind valid elements.
  ValueList TopK() {
    Value* x = node_.operand(0);
    const bool largest = node_.Int("largest") != 0;
    TensorData last = Extremum(ElementType(), !largest);
    if (!largest && IsFloat(ElementType())) {
      last =
          TensorData::From<double>(ElementType(), {}, {std::numeric_limits<double>::quiet_NaN()});
    }
    return Again({Masked(x, std::move(last))});
  }

  // The bounds of bags are clamped like those of a slice that ends at the count.
  ValueList Bags() {
    Value* x = node_.operand(0);
    if (node_.operand(2) == nullptr) return {};
    Value* count = SizeAsData(x->type.shape[0], count_of_, f_);
    Value* zero = Integer(0);
    Value* bounds[2];
    for (int side = 0; side < 2; ++side) {
      Value* from_start = f_.FromStart(node_.operand(side + 1), count);
      bounds[side] = f_.Make(Kind::kMax, {f_.Make(Kind::kMin, {from_start, count}), zero});
    }
    Attributes attributes = node_.attributes;
    attributes["zero_if_empty"] = int64_t{0};
    Value* folded = f_.Make(Kind::kSegmentReduce, {x, bounds[0], bounds[1]}, std::move(attributes),
                            node_.result()->name);
    if (node_.Int("zero_if_empty") == 0) return {folded};
    Value* is_empty = f_.Make(Kind::kEqual, {node_.operand(1), node_.operand(2)});
    return {f_.Where(f_.AlongAxis(is_empty, 0, folded->type.rank()),
                     f_.Number(0, folded->type.dtype), folded)};
  }

  // Converts indices into a counted axis to non-negative ones. Indices outside the count become the
  // bound of the axis, which is out of range and fails the run.
  Value* WithinCount(Value* indices, const Expr& rows) {
    Value* count = SizeAsData(rows, count_of_, f_);
    Value* zero = Integer(0);
    Value* from_start = f_.FromStart(indices, count);
    Value* is_inside = f_.Make(Kind::kAnd, {f_.Make(Kind::kGreaterOrEqual, {from_start, zero}),
                                            f_.Make(Kind::kLess, {from_start, count})});
    return f_.Make(Kind::kWhere, {is_inside, from_start, SizeOf(f_, rows)}, {},
                   indices->name + "_within_count");
  }

  // The indices with padding replaced by 0; null if index 0 may be out of range.
  Value* Indices(Value* indices) {
    if (!IsCounted(indices->type.shape)) return indices;
    const auto use = IntegerFactsOf(node_.kind).index_use(node_, 1);
    if (!use || !HaveElements(use->limits)) return nullptr;
    return Masked(indices, TensorData(indices->type.dtype, {}));
  }

  // Whether a look-up has indices into this axis; nullopt if it has indices into others as well.
  std::optional<bool> Indexes(int axis) const {
    if (node_.kind != Kind::kGatherND) return axis == node_.Int("axis");
    const std::optional<int64_t> indexed = node_.operand(1)->type.shape.back().AsConstant();
    if (node_.Int("batch_dims") != 0 || !indexed) return std::nullopt;
    if (axis >= *indexed) return false;
    return *indexed == 1 ? std::optional(true) : std::nullopt;
  }

  ValueList LookUp() {
    Value* data = node_.operand(0);
    Value* indices = node_.operand(1);
    for (const int axis : CountedAxes(data)) {
      const std::optional<bool> is_indexed = Indexes(axis);
      if (!is_indexed) return {};
      if (*is_indexed) {
        if (!HaveElements({data->type.shape[axis]})) return {};
        indices = WithinCount(indices, data->type.shape[axis]);
      } else if (node_.kind == Kind::kGatherElements) {  // row i of the result reads row i
        if (indices->type.shape[axis] != data->type.shape[axis]) return {};
      }
    }
    indices = Indices(indices);
    if (indices == nullptr) return {};
    return Again({data, indices});
  }

  // Padding updates must change nothing: they become the reduction's neutral element, or, without a
  // reduction, repeat the last valid update.
  ValueList Scatter() {
    Value* data = node_.operand(0);
    Value* updates = node_.operand(2);
    Value* indices = node_.operand(1);
    const std::vector<int> counted = CountedAxes(indices), places = CountedAxes(data);
    const bool is_elements = node_.kind == Kind::kScatterElements;
    if (counted.size() > 1 || places.size() > 1) return {};
    if (is_elements && !counted.empty() && counted[0] != node_.Int("axis")) return {};
    if (!places.empty()) {
      const bool has_axis = is_elements
                                ? places[0] == node_.Int("axis")
                                : places[0] == 0 && indices->type.shape.back().IsConstant(1);
      if (!has_axis) return {};
      indices = WithinCount(indices, data->type.shape[places[0]]);
    }
    if (counted.empty()) return Again({data, indices, updates});
    const int axis = counted[0];
    indices = Indices(indices);
    if (indices == nullptr) return {};
    const std::string& reduction = node_.Get<std::string>("reduction");
    if (reduction != "none") {
      return Again({data, indices, Masked(updates, Neutral(reduction))});
    }
    const Expr& rows = indices->type.shape[axis];
    Value* count = SizeAsData(rows, count_of_, f_);
    Value* last = f_.Make(Kind::kMax, {f_.Sub(count, Integer(1)), Integer(0)});
    Value* row = f_.Make(Kind::kMin, {f_.Iota(0, rows), last}, {}, "row_before_count");
    const ValueList scattered =
        Again({data, f_.Gather(indices, row, axis), f_.Gather(updates, row, axis)});
    if (scattered.empty()) return {};
    Value* has_updates = f_.Make(Kind::kGreater, {count, Integer(0)});
    return {f_.Where(has_updates, scattered[0], data)};
  }

  TensorData Neutral(const std::string& reduction) const {
    if (reduction == "mul") return TensorData::From<int64_t>(ElementType(), {}, {1});
    if (reduction != "add") return Extremum(ElementType(), reduction == "min");
    // -0 + -0 is -0, but -0 + 0 is 0.
    return IsFloat(ElementType()) ? TensorData::From<double>(ElementType(), {}, {-0.0})
                                  : TensorData(ElementType(), {});
  }

  const Node& node_;
  CountLookup count_of_;
  const Ranges& ranges_;
  Builder& builder_;
  Formula f_;
};

}  // namespace

bool IsRowLocal(const Node& node) {
  if (IsUnclear(node)) return false;
  const Value* x = node.operand(0);
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
      return node.kind != OpKind::kSymbolicDims;
    case OpClass::kView:
      return KeepsRows(node);
    case OpClass::kGather:
      return node.kind == OpKind::kGather && !IsCounted(node.operand(1)->type.shape) &&
             AreWhole(x, {node.Int("axis")});
    case OpClass::kReduction:
      return AreWhole(x, node.Ints("axes"));
    case OpClass::kContraction:
      return IsRowLocalProduct(node);
    case OpClass::kComposite:
      return IsRowLocalComposite(node);
    case OpClass::kSequential:
      if (node.kind == OpKind::kTopK) {
        return !IsCounted(node.Get<Exprs>("k")) && AreWhole(x, {node.Int("axis")});
      }
      if (node.kind == OpKind::kRecurrence) {
        return CountedAxes(x) == std::vector<int>{BatchAxis(node)} &&
               node.operand(kLengths) == nullptr;
      }
      if (node.kind != OpKind::kCumSum && node.kind != OpKind::kCumProd) return false;
      return node.Int("reverse") == 0 || AreWhole(x, {node.Int("axis")});
    default:
      return false;
  }
}

ValueList WithoutRowsBehind(const Node& node, CountLookup count_of, const Ranges& ranges,
                            Builder& builder) {
  if (IsUnclear(node)) return {};
  return Rewrite(node, count_of, ranges, builder).Results();
}

}  // namespace fusec
