// Unique: the different elements of a vector, as rows of a run-time count.
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// What Unique makes of a vector. The first three are counted rows, one for each different element.
struct Groups {
  Value* values;
  Value* first;   // the position in x of each value's first appearance
  Value* counts;  // how often it appears
  Value* of;      // for each element of x, the number of its group
};

Value* Sort(Formula& f, Value* x, Value** order) {
  const Expr& size = x->type.shape[0];
  Value* sorted = f.Make(
      OpKind::kTopK, {x},
      {{"axis", int64_t{0}}, {"k", Exprs{size}}, {"largest", int64_t{0}}, {"sorted", int64_t{1}}});
  const Node* made = sorted->producer;
  *order = made != nullptr && made->kind == OpKind::kTopK ? made->result(1) : x;
  return sorted;
}

Value* NotEqual(Formula& f, Value* a, Value* b) {
  Value* differ = f.Unary(OpKind::kNot, f.Make(OpKind::kEqual, {a, b}));
  if (!IsFloat(a->type.dtype)) return differ;
  const auto is_nan = [&](Value* x) { return f.Unary(OpKind::kIsNaN, x); };
  Value* both = f.Make(OpKind::kAnd, {is_nan(a), is_nan(b)});  // one value, as NumPy has it
  return f.Make(OpKind::kAnd, {differ, f.Unary(OpKind::kNot, both)});
}

// Of elements in ascending order, equal ones by position, a group begins where one differs from
// that before it.
Groups SortedGroups(ImportContext& context, Value* x, Formula& f) {
  const Expr size = x->type.shape[0];
  Value* zero = f.Number(0, Dtype::kI64);
  Value* one = f.Number(1, Dtype::kI64);
  Value* order = nullptr;
  Value* sorted = Sort(f, x, &order);
  Value* place = f.Iota(0, size);
  Value* before = f.Gather(sorted, f.Make(OpKind::kMax, {f.Sub(place, one), zero}));
  Value* begins =
      f.Make(OpKind::kOr, {f.Make(OpKind::kEqual, {place, zero}), NotEqual(f, sorted, before)}, {},
             "begins");
  Value* starts = PositionsOfData(context, begins, f);
  const Expr& count = starts->type.shape[0];
  Value* next = f.Add(f.Iota(0, count), one);
  Value* last = f.Sub(SizeOf(f, count), one);
  Value* end = f.Where(f.Make(OpKind::kLessOrEqual, {next, last}),
                       f.Gather(starts, f.Make(OpKind::kMin, {next, last})), SizeOf(f, size));
  Value* number =
      f.Sub(f.Make(OpKind::kCumSum, {f.Cast(begins, Dtype::kI64)},
                   {{"axis", int64_t{0}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{0}}}),
            one);
  Value* of = f.Make(OpKind::kScatterElements, {f.Expand(zero, {size}), order, number},
                     {{"axis", int64_t{0}}, {"reduction", std::string("none")}});
  return {f.Gather(sorted, starts), f.Gather(order, starts), f.Sub(end, starts), of};
}

// The same groups by their first appearance.
Groups ByAppearance(Formula& f, const Groups& sorted) {
  Value *order = nullptr, *place = nullptr;
  Value* first = Sort(f, sorted.first, &order);
  Sort(f, order, &place);  // the inverse of a permutation
  return {f.Gather(sorted.values, order), first, f.Gather(sorted.counts, order),
          f.Gather(place, sorted.of)};
}

}  // namespace

// Y, indices, inverse_indices, counts. Without an axis x is taken as a vector.
Result<void> ImportUnique(ImportContext& context) {
  Value* x = context.input(0);
  if (context.Has("axis") && x->type.rank() != 1) {
    FUSEC_TRY(ImportAxis(context, context.Int("axis", 0), x->type.rank()));
    return context.Fail("x is " + x->type.ToString() +
                        " and axis is given, which fusec supports for rank 1 only");
  }
  Formula f(context);
  const Dtype dtype = x->type.dtype;
  x = f.Reshape(x, {x->type.ElementCount()});
  if (x->type.shape[0].IsConstant(0)) {
    Value* none = f.Iota(0, 0);
    return f.Finish({x, none, none, none});
  }
  if (dtype == Dtype::kBool) x = f.Cast(x, Dtype::kU8);
  Groups groups = SortedGroups(context, x, f);
  if (context.Int("sorted", 1) == 0) groups = ByAppearance(f, groups);
  return f.Finish({f.Cast(groups.values, dtype), groups.first, groups.of, groups.counts});
}

}  // namespace fusec
