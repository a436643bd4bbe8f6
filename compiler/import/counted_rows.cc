#include "compiler/import/counted_rows.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"

namespace fusec {
namespace {

bool IsCount(const AtomRef& atom) {
  return atom->kind == Atom::Kind::kSymbol && atom->name.starts_with(kCountPrefix);
}

// Whether `dim` is one count times a factor without counts: rows behind it are those behind the
// count.
bool IsCountOfRows(const Expr& dim) {
  if (dim.terms().size() != 1) return false;
  const Atoms& atoms = dim.terms()[0].atoms;
  const auto mentions = [](const AtomRef& atom) {
    return IsCount(atom) || IsCounted(atom->left) || IsCounted(atom->right);
  };
  return std::count_if(atoms.begin(), atoms.end(), mentions) == 1 &&
         std::any_of(atoms.begin(), atoms.end(), IsCount);
}

// The axis of `shape` that is a count of rows, the only one that mentions counts; -1 if there is
// none, or if there are several or others.
int CountedAxis(ShapeRef shape) {
  int found = -1;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (!IsCounted(shape[axis])) continue;
    if (found >= 0 || !IsCountOfRows(shape[axis])) return -1;
    found = axis;
  }
  return found;
}
int CountedAxis(const Value* value) { return CountedAxis(value->type.shape); }

// Whether counts are in places where no rule holds.
bool IsUnclear(const Value* value) {
  return value != nullptr && IsCounted(value->type.shape) && CountedAxis(value) < 0;
}
bool IsUnclear(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [](const Value* operand) { return IsUnclear(operand); }) ||
         std::any_of(node.results.begin(), node.results.end(),
                     [](const auto& result) { return IsUnclear(result.get()); });
}

bool Has(const std::vector<int64_t>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Expr SizeBefore(ShapeRef shape, int axis) {
  return Product(Shape(shape.begin(), shape.begin() + axis));
}

// Whether each row of the result comes from the same row of the operand.
bool KeepsRows(const Node& view) {
  const Shape& from = view.operand(0)->type.shape;
  const Shape& to = view.result()->type.shape;
  const int before = CountedAxis(from), after = CountedAxis(to);
  switch (view.kind) {
    case OpKind::kIdentity:
    case OpKind::kTranspose:
      return true;
    case OpKind::kExpand:  // broadcasting aligns the last axes
      return before < 0 || from.size() - before == to.size() - after;
    case OpKind::kTile:  // along other axes
      return before >= 0 && before == after && from[before] == to[after];
    case OpKind::kReshape:  // [count*4, 8] has the rows of [count, 4, 8] in the same order
      return before >= 0 && after >= 0 && SizeBefore(from, before) == SizeBefore(to, after);
    case OpKind::kSlice:
      return before >= 0 && before == after && from[before] == to[after] &&
             view.Get<Exprs>("starts")[before].IsConstant(0);
    default:
      return false;
  }
}

bool IsRowLocalComposite(const Node& node, int axis) {
  switch (node.kind) {
    case OpKind::kMean:
    case OpKind::kSum:
      return true;
    case OpKind::kLogSoftmax:
    case OpKind::kSoftmax:
      return axis != node.Int("axis");
    case OpKind::kReduceL1:
    case OpKind::kReduceL2:
    case OpKind::kReduceLogSum:
    case OpKind::kReduceLogSumExp:
    case OpKind::kReduceSumSquare:
      return !Has(node.Ints("axes"), axis);
    case OpKind::kLayerNormalization:
    case OpKind::kRMSNormalization:
      return axis < node.Int("axis");
    case OpKind::kGemm:
      return axis == 0 && node.Int("transpose_a") == 0 && CountedAxis(node.operand(1)) < 0;
    default:
      return false;
  }
}

// Whether the counted axes of both factors are axes of the product: rows, columns or a batch.
bool IsRowLocalProduct(const Node& product) {
  for (int i = 0; i < 2; ++i) {
    const Value* factor = product.operand(i);
    const int axis = CountedAxis(factor);
    const bool is_transposed = product.Int(i == 0 ? "transpose_a" : "transpose_b") != 0;
    const int depth = factor->type.rank() - ((i == 0) == is_transposed ? 2 : 1);
    if (axis >= 0 && axis == depth) return false;
  }
  return true;
}

int BatchAxis(const Node& recurrence) { return recurrence.Int("batch_first") != 0 ? 0 : 1; }

// A scalar: the least or greatest value of a dtype.
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

// Writes one node again.
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

  // The node with other operands.
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
  Value* Bound(const Expr& size) {  // the bound of a count takes its place in the end
    return f_.Make(Kind::kSymbolicDims, {}, {{"values", Exprs{size}}, {"scalar", int64_t{1}}});
  }
  // Whether each of `sizes` has an element at least, once bounds are in the places of counts.
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

  // x where its rows along `axis` are before the count, `other` behind.
  Value* Masked(Value* x, int axis, Value* other) {
    const Expr& rows = x->type.shape[axis];
    Value* count = SizeAsData(rows, count_of_, f_);
    Value* is_before = f_.Make(Kind::kLess, {f_.Iota(0, rows), count}, {}, "is_before_count");
    return f_.Where(f_.AlongAxis(is_before, axis, x->type.rank()), x, other);
  }
  Value* Masked(Value* x, int axis, TensorData other) {
    return Masked(x, axis, builder_.Constant(std::move(other), "neutral"));
  }

  ValueList Fold(TensorData neutral) {
    Value* x = node_.operand(0);
    return Again({Masked(x, CountedAxis(x), std::move(neutral))});
  }

  ValueList Mean() {
    Value* x = node_.operand(0);
    if (!IsFloat(x->type.dtype)) return {};
    Exprs folded;
    for (const int64_t axis : node_.Ints("axes")) folded.push_back(x->type.shape[axis]);
    const Dtype wide = ComputeDtype(x->type.dtype);
    Value* count = f_.Cast(SizeAsData(Product(folded), count_of_, f_), wide);
    Value* before = f_.Cast(Masked(x, CountedAxis(x), TensorData(x->type.dtype, {})), wide);
    Value* sum =
        f_.Reduce(Kind::kReduceSum, before, node_.Ints("axes"), node_.Int("keepdims") != 0);
    return {f_.Cast(f_.Div(sum, count), x->type.dtype)};
  }

  // A sum over counted rows of both factors. Both are 0 behind: 0 times infinity is NaN.
  ValueList SumOfProducts() {
    ValueList factors;
    for (int i = 0; i < 2; ++i) {
      Value* factor = node_.operand(i);
      const int axis = CountedAxis(factor);
      if (axis < factor->type.rank() - 2) return {};
      factors.push_back(Masked(factor, axis, TensorData(factor->type.dtype, {})));
    }
    return Again(std::move(factors));
  }

  // Sequences behind the count have no steps.
  ValueList Sequences() {
    Value* lengths = node_.operand(kLengths);
    if (lengths == nullptr || CountedAxis(node_.operand(kGates)) != BatchAxis(node_)) return {};
    ValueList operands = node_.operands;
    operands[kLengths] = Masked(lengths, 0, TensorData(lengths->type.dtype, {}));
    return Again(std::move(operands));
  }

  // Rows behind the count come last: they hold what comes after everything, and of equals the
  // lower index comes first.
  ValueList TopK() {
    Value* x = node_.operand(0);
    const bool largest = node_.Int("largest") != 0;
    TensorData last = Extremum(ElementType(), !largest);
    if (!largest && IsFloat(ElementType())) {
      last =
          TensorData::From<double>(ElementType(), {}, {std::numeric_limits<double>::quiet_NaN()});
    }
    return Again({Masked(x, CountedAxis(x), std::move(last))});
  }

  // Bounds of bags as those of a slice that ends at the count.
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

  // Indices into `rows`, a count, from its start; the bound itself, which fails the run, for those
  // outside.
  Value* WithinCount(Value* indices, const Expr& rows) {
    Value* count = SizeAsData(rows, count_of_, f_);
    Value* zero = Integer(0);
    Value* from_start = f_.FromStart(indices, count);
    Value* is_inside = f_.Make(Kind::kAnd, {f_.Make(Kind::kGreaterOrEqual, {from_start, zero}),
                                            f_.Make(Kind::kLess, {from_start, count})});
    return f_.Make(Kind::kWhere, {is_inside, from_start, Bound(rows)}, {},
                   indices->name + "_within_count");
  }

  // The indices, of which those behind the count are 0; null where 0 may be outside.
  Value* Indices(Value* indices) {
    const int axis = CountedAxis(indices);
    if (axis < 0) return indices;
    const auto use = IntegerFactsOf(node_.kind).index_use(node_, 1);
    if (!use || !HaveElements(use->limits)) return nullptr;
    return Masked(indices, axis, TensorData(indices->type.dtype, {}));
  }

  ValueList LookUp() {
    Value* data = node_.operand(0);
    Value* indices = node_.operand(1);
    const int axis = CountedAxis(data);
    if (axis >= 0 && node_.kind == Kind::kGatherND) return {};
    if (axis >= 0 && axis == node_.Int("axis")) {
      if (!HaveElements({data->type.shape[axis]})) return {};
      indices = WithinCount(indices, data->type.shape[axis]);
    } else if (axis >= 0 && node_.kind == Kind::kGatherElements) {  // rows of the same numbers
      if (indices->type.shape[axis] != data->type.shape[axis]) return {};
    }
    indices = Indices(indices);
    if (indices == nullptr) return {};
    return Again({data, indices});
  }

  // Updates behind the count change nothing: they hold the reduction's neutral element, or where
  // there is none the last update before the count again.
  ValueList Scatter() {
    Value* data = node_.operand(0);
    Value* updates = node_.operand(2);
    const int axis = CountedAxis(node_.operand(1));
    const bool is_elements = node_.kind == Kind::kScatterElements;
    if (axis < 0 || (is_elements && axis != node_.Int("axis"))) return {};
    Value* indices = node_.operand(1);
    if (IsCounted(data->type.shape)) {
      if (!is_elements || CountedAxis(data) != axis) return {};
      indices = WithinCount(indices, data->type.shape[axis]);
    }
    indices = Indices(indices);
    if (indices == nullptr) return {};
    const std::string& reduction = node_.Get<std::string>("reduction");
    if (reduction != "none") {
      return Again({data, indices, Masked(updates, axis, Neutral(reduction))});
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

std::string CountSymbol(size_t number) { return kCountPrefix + std::to_string(number); }

bool IsCounted(const Expr& dim) {
  std::vector<std::string> symbols;
  dim.CollectSymbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](const std::string& symbol) { return symbol.starts_with(kCountPrefix); });
}

bool IsCounted(ShapeRef shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& dim) { return IsCounted(dim); });
}

Value* SizeAsData(const Expr& size, CountLookup count_of, Formula& f) {
  Value* sum = nullptr;
  Expr rest;  // terms without counts
  for (const Expr::Term& term : size.terms()) {
    if (!IsCounted(Expr::FromTerms({term}))) {
      rest = rest + Expr::FromTerms({term});
      continue;
    }
    Value* product = nullptr;
    Expr::Term factor{term.coefficient, {}};
    for (const AtomRef& atom : term.atoms) {
      if (!IsCount(atom)) {
        if (IsCounted(atom->left) || IsCounted(atom->right)) return nullptr;
        factor.atoms.push_back(atom);
        continue;
      }
      Value* count = count_of(atom->name);
      product = product == nullptr ? count : f.Mul(product, count);
    }
    const Expr times = Expr::FromTerms({factor});
    if (!times.IsConstant(1)) {
      product = f.Mul(product, f.Make(OpKind::kSymbolicDims, {},
                                      {{"values", Exprs{times}}, {"scalar", int64_t{1}}}));
    }
    sum = sum == nullptr ? product : f.Add(sum, product);
  }
  if (sum != nullptr && rest.IsConstant(0)) return sum;
  Value* other =
      f.Make(OpKind::kSymbolicDims, {}, {{"values", Exprs{rest}}, {"scalar", int64_t{1}}});
  return sum == nullptr ? other : f.Add(sum, other);
}

bool IsRowLocal(const Node& node) {
  if (IsUnclear(node)) return false;
  const Value* first = node.operand(0);
  const int axis = first == nullptr ? -1 : CountedAxis(first);
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
      return node.kind != OpKind::kSymbolicDims;
    case OpClass::kView:
      if (node.kind != OpKind::kConcat) return KeepsRows(node);
      return CountedAxis(node.result()) >= 0 && CountedAxis(node.result()) != node.Int("axis");
    case OpClass::kGather:
      return node.kind == OpKind::kGather && !IsCounted(node.operand(1)->type.shape) &&
             axis != node.Int("axis");
    case OpClass::kReduction:
      return !Has(node.Ints("axes"), axis);
    case OpClass::kContraction:
      return IsRowLocalProduct(node);
    case OpClass::kComposite:
      return IsRowLocalComposite(node, axis);
    case OpClass::kSequential:
      if (node.kind == OpKind::kTopK) return axis >= 0 && axis != node.Int("axis");
      if (node.kind == OpKind::kRecurrence) {
        return axis == BatchAxis(node) && node.operand(kLengths) == nullptr;
      }
      if (node.kind != OpKind::kCumSum && node.kind != OpKind::kCumProd) return false;
      return axis != node.Int("axis") || node.Int("reverse") == 0;
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
