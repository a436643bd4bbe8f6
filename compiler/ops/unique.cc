// Unique: the distinct elements of a tensor, or the distinct slices along an axis. Their number is
// a run-time count.
#include <algorithm>

#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The distinct values of a vector, or the distinct rows of a matrix. The first three have one row
// per distinct value; their size is a run-time count.
struct Groups {
  Value* values;
  Value* first;   // the position in x of each value's first appearance
  Value* counts;  // how often it appears
  Value* of;      // for each row of x, the number of its group
};

// The positions of the elements of a vector in ascending order; equal elements are in order of
// position.
Value* Order(Formula& f, Value* x) {
  const Expr& size = x->type.shape[0];
  Value* sorted = f.Make(
      OpKind::kTopK, {x},
      {{"axis", int64_t{0}}, {"k", Exprs{size}}, {"largest", int64_t{0}}, {"sorted", int64_t{1}}});
  const Node* made = sorted->producer;
  return made != nullptr && made->kind == OpKind::kTopK ? made->result(1) : x;
}

// The positions of the rows of a matrix in ascending lexicographic order. The rows are sorted by
// the last column, then by the one before it, and so on; each sort is stable.
Value* OrderOfRows(Formula& f, Value* x, int64_t columns) {
  const Expr& size = x->type.shape[0];
  Value* order = nullptr;
  for (int64_t column = columns; column-- > 0;) {
    Value* key = f.Reshape(f.Slice(x, 1, column, 1), {size});
    order = order == nullptr ? Order(f, key) : f.Gather(order, Order(f, f.Gather(key, order)));
  }
  return order == nullptr ? f.Iota(0, size) : order;
}

// For each row, whether `a` and `b` differ.
Value* NotEqual(Formula& f, Value* a, Value* b) {
  Value* differ = f.Unary(OpKind::kNot, f.Make(OpKind::kEqual, {a, b}));
  if (IsFloat(a->type.dtype)) {
    const auto is_nan = [&](Value* x) { return f.Unary(OpKind::kIsNaN, x); };
    Value* both = f.Make(OpKind::kAnd, {is_nan(a), is_nan(b)});  // NaNs are equal, as in NumPy
    differ = f.Make(OpKind::kAnd, {differ, f.Unary(OpKind::kNot, both)});
  }
  if (a->type.rank() == 1) return differ;
  Value* columns =
      f.Reduce(OpKind::kReduceSum, f.Cast(differ, Dtype::kI64), {1}, /*keepdims=*/false);
  return f.Cast(columns, Dtype::kBool);
}

// Groups the rows of x, which are ascending in `order`: a group begins where a row differs from the
// one before it.
Groups SortedGroups(ImportContext& context, Value* x, Value* order, Formula& f) {
  const Expr size = x->type.shape[0];
  Value* zero = f.Number(0, Dtype::kI64);
  Value* one = f.Number(1, Dtype::kI64);
  Value* sorted = f.Gather(x, order);
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

// The same groups, ordered by their first appearance.
Groups ByAppearance(Formula& f, const Groups& sorted) {
  Value* order = Order(f, sorted.first);
  Value* place = Order(f, order);  // the inverse of a permutation
  return {f.Gather(sorted.values, order), f.Gather(sorted.first, order),
          f.Gather(sorted.counts, order), f.Gather(place, sorted.of)};
}

// The permutation that moves `axis` of a tensor of `rank` axes to the front.
std::vector<int64_t> ToFront(int64_t axis, int rank) {
  std::vector<int64_t> axes = {axis};
  for (int64_t other = 0; other < rank; ++other) {
    if (other != axis) axes.push_back(other);
  }
  return axes;
}

// The inverse permutation.
std::vector<int64_t> FromFront(int64_t axis, int rank) {
  std::vector<int64_t> axes(rank);
  const std::vector<int64_t> to_front = ToFront(axis, rank);
  for (int i = 0; i < rank; ++i) axes[to_front[i]] = i;
  return axes;
}

}  // namespace

// Outputs are Y, indices, inverse_indices and counts. Without an axis, x is flattened; with one, x
// becomes a matrix with a row for each slice along the axis.
Result<void> ImportUnique(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const Dtype dtype = x->type.dtype;
  const int rank = x->type.rank();
  const bool has_rows = context.Has("axis") && rank > 1;
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, context.Int("axis", 0), std::max(rank, 1)));
  if (has_rows) x = f.Transpose(x, ToFront(axis, rank));
  Shape part(x->type.shape.begin() + (has_rows ? 1 : 0), x->type.shape.end());
  const std::optional<int64_t> columns = Product(part).AsConstant();
  if (has_rows && !columns) {
    return context.Fail("x is " + context.input(0)->type.ToString() + ", whose parts along axis " +
                        std::to_string(axis) +
                        " are sorted by one element after the other: fusec must know how many "
                        "they have");
  }
  constexpr int64_t kMostColumns = 4096;  // nodes are added for each column
  if (has_rows && *columns > kMostColumns) {
    return context.Fail("x is " + context.input(0)->type.ToString() + ", whose parts along axis " +
                        std::to_string(axis) + " have " + std::to_string(*columns) +
                        " elements, expected at most " + std::to_string(kMostColumns));
  }
  x = has_rows ? f.Reshape(x, {x->type.shape[0], *columns})
               : f.Reshape(x, {x->type.ElementCount()});
  if (x->type.shape[0].IsConstant(0)) {
    Value* none = f.Iota(0, 0);
    return f.Finish({has_rows ? context.input(0) : x, none, none, none});
  }
  if (dtype == Dtype::kBool) x = f.Cast(x, Dtype::kU8);
  Value* order = has_rows ? OrderOfRows(f, x, *columns) : Order(f, x);
  Groups groups = SortedGroups(context, x, order, f);
  if (context.Int("sorted", 1) == 0) groups = ByAppearance(f, groups);
  Value* values = f.Cast(groups.values, dtype);
  if (has_rows) {
    part.insert(part.begin(), values->type.shape[0]);
    values = f.Transpose(f.Reshape(values, part), FromFront(axis, rank));
  }
  return f.Finish({values, groups.first, groups.of, groups.counts});
}

}  // namespace fusec
