#include "compiler/import/counted_views.h"

#include <algorithm>

#include "compiler/ops/places.h"

namespace fusec {
namespace {

// Whether a reshape from `from` to `to` keeps the rows in order: [count*4, 8] has the same rows as
// [count, 4, 8]. If the first counted axes have equal sizes, the axes behind them may be reshaped
// in the same way.
bool HasSameRows(ShapeRef from, ShapeRef to) {
  const std::vector<int> of_from = CountedAxes(from), of_to = CountedAxes(to);
  if (of_from.empty() || of_to.empty()) return of_from.empty() && of_to.empty();
  const int before = of_from[0], after = of_to[0];
  const auto size_before = [](ShapeRef shape, int axis) {
    return Product(Shape(shape.begin(), shape.begin() + axis));
  };
  if (size_before(from, before) != size_before(to, after)) return false;
  if (of_from.size() == 1 && of_to.size() == 1) return true;
  return from[before] == to[after] && HasSameRows(from.slice(before + 1), to.slice(after + 1));
}

// Whether each counted axis of `from` has the same size in `to`, `offset` axes further on.
bool AreWhole(ShapeRef from, ShapeRef to, size_t offset) {
  const std::vector<int> counted = CountedAxes(from);
  return std::all_of(counted.begin(), counted.end(),
                     [&](int axis) { return from[axis] == to[axis + offset]; });
}

// The row-major strides of a tensor with these sizes.
ValueList Strides(ArrayRef<Value*> sizes, Formula& f) {
  ValueList strides(sizes.size(), nullptr);
  Value* product = f.Number(1, Dtype::kI64);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = product;
    product = f.Mul(product, sizes[axis]);
  }
  return strides;
}

// The coordinates of linear position `place` in a tensor with these sizes. Axes of size 0 get the
// coordinate 0.
ValueList Coordinates(Value* place, ArrayRef<Value*> sizes, Formula& f) {
  ValueList coordinates;
  Value* one = f.Number(1, Dtype::kI64);
  const ValueList strides = Strides(sizes, f);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    Value* row = f.Div(place, f.Make(OpKind::kMax, {strides[axis], one}));
    Value* size = f.Make(OpKind::kMax, {sizes[axis], one});
    coordinates.push_back(f.Make(OpKind::kMod, {row, size}, {{"fmod", int64_t{0}}}));
  }
  return coordinates;
}

// The linear position of the element at `coordinates`.
Value* Place(ArrayRef<Value*> coordinates, ArrayRef<Value*> sizes, Formula& f) {
  const ValueList strides = Strides(sizes, f);
  Value* place = f.Number(0, Dtype::kI64);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    place = f.Add(place, f.Mul(coordinates[axis], strides[axis]));
  }
  return place;
}

ValueList Bounds(ShapeRef shape, Formula& f) {
  ValueList bounds;
  for (const Expr& size : shape) bounds.push_back(SizeOf(f, size));
  return bounds;
}

ValueList TrueSizes(ShapeRef shape, CountLookup count_of, Formula& f) {
  ValueList sizes;
  for (const Expr& size : shape) sizes.push_back(SizeAsData(size, count_of, f));
  return sizes;
}

}  // namespace

bool KeepsRows(const Node& view) {
  const Shape& from = view.operand(0)->type.shape;
  const Shape& to = view.result()->type.shape;
  switch (view.kind) {
    case OpKind::kIdentity:
    case OpKind::kTranspose:
      return true;
    case OpKind::kExpand:  // broadcasting aligns the last axes
      return AreWhole(from, to, to.size() - from.size());
    case OpKind::kTile:  // only uncounted axes are repeated
      return AreWhole(from, to, 0);
    case OpKind::kReshape:
      return HasSameRows(from, to);
    case OpKind::kSlice: {
      const std::vector<int> counted = CountedAxes(from);
      const Exprs& starts = view.Get<Exprs>("starts");
      return counted == CountedAxes(to) && AreWhole(from, to, 0) && !IsCounted(starts) &&
             std::all_of(counted.begin(), counted.end(),
                         [&](int axis) { return starts[axis].IsConstant(0); });
    }
    case OpKind::kConcat: {  // along an uncounted axis, or only the last part is counted
      const auto axis = static_cast<int>(view.Int("axis"));
      return std::all_of(view.operands.begin(), view.operands.end() - 1,
                         [&](const Value* part) { return !IsCounted(part->type.shape[axis]); });
    }
    default:
      return false;
  }
}

Value* ReshapeBeforeCounts(Value* x, ShapeRef shape, CountLookup count_of, Formula& f) {
  const Shape from = x->type.shape;
  const ValueList sizes = TrueSizes(shape, count_of, f);
  const ValueList here = Coordinates(f.Iota(0, Product(shape)), Bounds(shape, f), f);
  Value* is_before = nullptr;
  for (const int axis : CountedAxes(shape)) {
    Value* is_inside = f.Make(OpKind::kLess, {here[axis], sizes[axis]});
    is_before = is_before == nullptr ? is_inside : f.Make(OpKind::kAnd, {is_before, is_inside});
  }
  Value* number = Place(here, sizes, f);
  const ValueList there = Coordinates(number, TrueSizes(from, count_of, f), f);
  Value* place = Place(there, Bounds(from, f), f);
  if (is_before != nullptr) place = f.Where(is_before, place, f.Number(0, Dtype::kI64));
  return f.Reshape(f.Gather(f.Reshape(x, {Product(from)}), place), shape);
}

Value* ConcatBeforeCounts(Value* joined, ArrayRef<Value*> parts, int axis, CountLookup count_of,
                          Formula& f) {
  Value* row = f.Iota(0, joined->type.shape[axis]);
  Value* zero = f.Number(0, Dtype::kI64);
  Value* place = zero;  // for padding rows
  // The loop goes from the last part to the first; a part is [begin, end) of `joined`.
  Expr end, begin;
  for (const Value* part : parts) end = end + part->type.shape[axis];
  for (size_t i = parts.size(); i-- > 0;) {
    begin = end - parts[i]->type.shape[axis];
    Value* skipped = f.Sub(SizeOf(f, begin), SizeAsData(begin, count_of, f));
    Value* is_before = f.Make(OpKind::kLess, {row, SizeAsData(end, count_of, f)});
    place = f.Where(is_before, f.Add(row, skipped), place);
    end = begin;
  }
  return f.Gather(joined, place, axis);
}

}  // namespace fusec
