// softmax {axis} and log_softmax {axis}.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/operand_checks.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// Before opset 13 all axes from `axis` on form one row, so the softmax is taken along the last axis
// of a reshaped x.
Result<void> ImportSoftmax(ImportContext& context, OpKind kind) {
  Value* x = context.input(0);
  const bool flattens = context.opset() < 13;
  const int rank = x->type.rank();
  Result<int64_t> axis = NormalizeAxis(context.Int("axis", flattens ? 1 : -1), rank);
  if (!axis) return context.Fail(axis.error().message);
  if (!flattens || *axis == rank - 1) return context.AddNode(kind, {x}, {{"axis", *axis}});
  const Shape shape = x->type.shape;
  Formula formula(context.builder());
  Value* rows = formula.Reshape(x, {Product({shape.begin(), shape.begin() + *axis}),
                                    Product({shape.begin() + *axis, shape.end()})});
  Result<Node*> node = context.builder().Add(kind, {rows}, {{"axis", int64_t{1}}});
  if (!node) return tl::unexpected<Error>(node.error());
  context.SetOutput(0, formula.Reshape((*node)->result(), shape));
  return {};
}

InferResult InferSoftmax(const InferContext& context) {
  FUSEC_TRY(CheckFloatsAlongAxis(context));
  return std::vector<TensorType>{context.operand(0)};
}

// Calls `visit(first, stride, length)` for every row along `axis`; first and stride are in
// elements.
template <class Visit>
void ForEachRow(ArrayRef<int64_t> dims, int64_t axis, Visit visit) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < dims.size(); ++i) stride *= dims[i];
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= dims[i];
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < stride; ++j) visit(i * dims[axis] * stride + j, stride, dims[axis]);
  }
}

// Writes x - max(row) to `y` and returns the row's sum of exp(y).
double ShiftRow(const ReferenceTensor& x, ReferenceTensor& y, int64_t first, int64_t stride,
                int64_t length) {
  double greatest = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < length; ++k) {
    const double value = x.reals[first + k * stride];
    if (std::isnan(value) || value > greatest) greatest = value;
  }
  double sum = 0;
  for (int64_t k = 0; k < length; ++k) {
    y.reals[first + k * stride] = x.reals[first + k * stride] - greatest;
    sum += std::exp(y.reals[first + k * stride]);
  }
  return sum;
}

// y = exp(x - max) / sum(exp(x - max)) along `axis`. Subtracting the maximum keeps exp from
// overflowing; a row of only -inf gives NaN, as in NumPy.
struct SoftmaxOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}};
  static Result<void> Import(ImportContext& context) {
    return ImportSoftmax(context, OpKind::kSoftmax);
  }
  static InferResult Infer(const InferContext& context) { return InferSoftmax(context); }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& y = context.output();
    ForEachRow(x.dims, context.node.Int("axis"),
               [&](int64_t first, int64_t stride, int64_t length) {
                 const double sum = ShiftRow(x, y, first, stride, length);
                 for (int64_t k = 0; k < length; ++k) {
                   double& value = y.reals[first + k * stride];
                   value = std::exp(value) / sum;
                 }
               });
    return {};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), ComputeDtype(dtype));
    return ValueList{f.Cast(f.Softmax(x, node.Int("axis")), dtype)};
  }
};

// y = (x - max) - log(sum(exp(x - max))) along `axis`.
struct LogSoftmaxOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}};
  static Result<void> Import(ImportContext& context) {
    return ImportSoftmax(context, OpKind::kLogSoftmax);
  }
  static InferResult Infer(const InferContext& context) { return InferSoftmax(context); }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& y = context.output();
    ForEachRow(x.dims, context.node.Int("axis"),
               [&](int64_t first, int64_t stride, int64_t length) {
                 const double log_sum = std::log(ShiftRow(x, y, first, stride, length));
                 for (int64_t k = 0; k < length; ++k) y.reals[first + k * stride] -= log_sum;
               });
    return {};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const std::vector<int64_t> axes = {node.Int("axis")};
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), ComputeDtype(dtype));
    Value* shifted = f.Sub(x, f.Reduce(OpKind::kReduceMax, x, axes));
    Value* sum = f.Reduce(OpKind::kReduceSum, f.Unary(OpKind::kExp, shifted), axes);
    Value* y = f.Sub(shifted, f.Unary(OpKind::kLog, sum));
    return ValueList{f.Cast(y, dtype)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(LogSoftmax)
FUSEC_DEFINE_OP(Softmax)

}  // namespace fusec
