#include "compiler/ops/formula.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/import_context.h"
#include "compiler/ir/failing_gather.h"

namespace fusec {

Formula::Formula(ImportContext& context) : builder_(context.builder()), context_(&context) {}

Result<void> Formula::Finish(ArrayRef<Value*> outputs) {
  if (problem_) {
    Error placed = context_->Fail(problem_->message).value();
    placed.fitting_dim = problem_->fitting_dim;
    return tl::unexpected<Error>(std::move(placed));
  }
  // Optional outputs at the end may be absent.
  const auto count = static_cast<size_t>(context_->output_count());
  for (size_t i = 0; i < std::min(outputs.size(), count); ++i) {
    if (outputs[i] != nullptr) context_->SetOutput(static_cast<int>(i), outputs[i]);
  }
  return {};
}

Value* Formula::Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes,
                     const std::string& name) {
  if (context_ == nullptr) return builder_.Make(kind, operands, std::move(attributes), name);
  if (!problem_) {
    Result<Node*> node = builder_.Add(kind, operands, std::move(attributes), name);
    if (node) return (*node)->result();
    problem_ = std::move(node.error());
  }
  return operands.empty() ? builder_.Scalar(Dtype::kF32, 0) : operands[0];
}

Value* Formula::Number(double value, Dtype dtype, const std::string& name) {
  TensorData data(dtype, {});
  data.SetDouble(0, value);
  return builder_.Constant(std::move(data), name);
}

Value* Formula::Cast(Value* x, Dtype dtype) {
  if (x->type.dtype == dtype) return x;
  return Make(OpKind::kCast, {x}, {{"to", dtype}});
}

Value* Formula::Reshape(Value* x, ShapeRef shape) {
  if (x->type.shape == shape) return x;
  return Make(OpKind::kReshape, {x}, {{"shape", Shape(shape)}});
}

Value* Formula::AlongAxis(Value* x, int64_t axis, int64_t rank) {
  Shape along(rank, Expr(1));
  if (!x->type.ElementCount().IsConstant(1)) along[axis] = x->type.shape[0];
  return Reshape(x, along);
}

Value* Formula::Expand(Value* x, ShapeRef shape) {
  if (x->type.shape == shape) return x;
  return Make(OpKind::kExpand, {x}, {{"shape", Shape(shape)}});
}

Value* Formula::Transpose(Value* x, ArrayRef<int64_t> perm) {
  std::vector<int64_t> in_order(perm.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  if (perm == ArrayRef(in_order)) return x;
  return Make(OpKind::kTranspose, {x}, {{"perm", perm.vec()}});
}

Value* Formula::Slice(Value* x, int axis, const Expr& begin, const Expr& length, int64_t step,
                      const std::string& name) {
  if (problem_) return x;
  Shape starts(x->type.rank(), Expr(0));
  std::vector<int64_t> steps(x->type.rank(), 1);
  Shape shape = x->type.shape;
  if (begin.IsConstant(0) && step == 1 && length == shape[axis]) return x;
  starts[axis] = begin;
  steps[axis] = step;
  shape[axis] = length;
  return Make(OpKind::kSlice, {x}, {{"starts", starts}, {"steps", steps}, {"shape", shape}}, name);
}

Value* Formula::Concat(ValueList parts, int axis) {
  if (parts.size() == 1) return parts[0];
  return Make(OpKind::kConcat, std::move(parts), {{"axis", int64_t{axis}}});
}

Value* Formula::Gather(Value* table, Value* indices, int64_t axis) {
  return Make(OpKind::kGather, {table, indices}, {{"axis", axis}});
}

Value* Formula::GatherOrFail(Value* table, Value* indices, int64_t axis) {
  return Make(OpKind::kGather, {table, indices}, {{"axis", axis}, {kFailsOutside, int64_t{1}}});
}

Value* Formula::FromStart(Value* indices, Value* size) {
  Value* given = Cast(indices, Dtype::kI64);
  Value* is_from_end = Make(OpKind::kLess, {given, Number(0, Dtype::kI64)});
  return Where(is_from_end, Add(given, size), given);
}

Value* Formula::Iota(const Expr& start, const Expr& length) {
  const std::optional<int64_t> first = start.AsConstant();
  Value* range = Make(OpKind::kRange, {},
                      {{"start", first.value_or(0)},
                       {"delta", int64_t{1}},
                       {"length", Shape{length}},
                       {"dtype", Dtype::kI64}});
  if (first) return range;
  return Add(range,
             Make(OpKind::kSymbolicDims, {}, {{"values", Shape{start}}, {"scalar", int64_t{1}}}));
}

Value* Formula::Reduce(OpKind kind, Value* x, ArrayRef<int64_t> axes, bool keepdims,
                       const std::string& name) {
  if (axes.empty()) return x;
  return Make(kind, {x}, {{"axes", axes}, {"keepdims", int64_t{keepdims}}}, name);
}

Value* Formula::MatMul(Value* a, Value* b, bool transpose_a, bool transpose_b) {
  return Make(OpKind::kMatMul, {a, b},
              {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
}

Value* Formula::Softmax(Value* x, int64_t axis) {
  Value* greatest = Reduce(OpKind::kReduceMax, x, {axis}, /*keepdims=*/true, "greatest");
  Value* power = Unary(OpKind::kExp, Sub(x, greatest, "shifted"), "power");
  return Div(power, Reduce(OpKind::kReduceSum, power, {axis}, /*keepdims=*/true, "total"));
}

Value* Formula::Tensor(Dtype dtype, std::vector<int64_t> dims, std::vector<double> values) {
  return builder_.Constant(TensorData::From(dtype, std::move(dims), std::move(values)));
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
