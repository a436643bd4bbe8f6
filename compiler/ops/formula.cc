#include "compiler/ops/formula.h"

#include <numeric>

namespace fusec {

Value* Formula::Number(double value, Dtype dtype, const std::string& name) {
  TensorData data(dtype, {});
  data.SetDouble(0, value);
  return builder_.Constant(std::move(data), name);
}

Value* Formula::Cast(Value* x, Dtype dtype) {
  if (x->type.dtype == dtype) return x;
  return builder_.Make(OpKind::kCast, {x}, {{"to", dtype}});
}

Value* Formula::Reshape(Value* x, ShapeRef shape) {
  if (x->type.shape == shape) return x;
  return builder_.Make(OpKind::kReshape, {x}, {{"shape", Shape(shape)}});
}

Value* Formula::Expand(Value* x, ShapeRef shape) {
  if (x->type.shape == shape) return x;
  return builder_.Make(OpKind::kExpand, {x}, {{"shape", Shape(shape)}});
}

Value* Formula::Transpose(Value* x, ArrayRef<int64_t> perm) {
  std::vector<int64_t> in_order(perm.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  if (perm == ArrayRef(in_order)) return x;
  return builder_.Make(OpKind::kTranspose, {x}, {{"perm", perm.vec()}});
}

Value* Formula::Slice(Value* x, int axis, const Expr& begin, const Expr& length, int64_t step,
                      const std::string& name) {
  Shape starts(x->type.rank(), Expr(0));
  std::vector<int64_t> steps(x->type.rank(), 1);
  Shape shape = x->type.shape;
  if (begin.IsConstant(0) && step == 1 && length == shape[axis]) return x;
  starts[axis] = begin;
  steps[axis] = step;
  shape[axis] = length;
  return builder_.Make(OpKind::kSlice, {x},
                       {{"starts", starts}, {"steps", steps}, {"shape", shape}}, name);
}

Value* Formula::Concat(ValueList parts, int axis) {
  if (parts.size() == 1) return parts[0];
  return builder_.Make(OpKind::kConcat, std::move(parts), {{"axis", int64_t{axis}}});
}

Value* Formula::Gather(Value* table, Value* indices) {
  return builder_.Make(OpKind::kGather, {table, indices}, {{"axis", int64_t{0}}});
}

Value* Formula::Iota(const Expr& start, const Expr& length) {
  const std::optional<int64_t> first = start.AsConstant();
  Value* range = builder_.Make(OpKind::kRange, {},
                               {{"start", first.value_or(0)},
                                {"delta", int64_t{1}},
                                {"length", Shape{length}},
                                {"dtype", Dtype::kI64}});
  if (first) return range;
  return Add(range, builder_.Make(OpKind::kSymbolicDims, {},
                                  {{"values", Shape{start}}, {"scalar", int64_t{1}}}));
}

Value* Formula::Reduce(OpKind kind, Value* x, ArrayRef<int64_t> axes, bool keepdims,
                       const std::string& name) {
  if (axes.empty()) return x;
  return builder_.Make(kind, {x}, {{"axes", axes}, {"keepdims", int64_t{keepdims}}}, name);
}

Value* Formula::MatMul(Value* a, Value* b, bool transpose_a, bool transpose_b) {
  return builder_.Make(
      OpKind::kMatMul, {a, b},
      {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
}

Value* Formula::Softmax(Value* x, int64_t axis) {
  Value* greatest = Reduce(OpKind::kReduceMax, x, {axis}, /*keepdims=*/true, "greatest");
  Value* power = Unary(OpKind::kExp, Sub(x, greatest, "shifted"), "power");
  return Div(power, Reduce(OpKind::kReduceSum, power, {axis}, /*keepdims=*/true, "total"));
}

Dtype ComputeDtype(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 ? Dtype::kF32 : dtype;
}

std::vector<int64_t> AxesFrom(int64_t first, int rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace fusec
