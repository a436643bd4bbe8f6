// Reductions of a function of the elements (reduce_l1, reduce_l2, reduce_log_sum,
// reduce_log_sum_exp, reduce_sum_square) and the variadic sum and mean.
#include <fmt/format.h>

#include <limits>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/operand_checks.h"
#include "compiler/ops/reduction_common.h"

namespace fusec {
namespace {

InferResult InferReduction(const InferContext& context) {
  if (context.operand(0).dtype == Dtype::kBool) {
    return ModelError(fmt::format("{} takes numbers, found bool", GetOpDef(context.kind).text));
  }
  FUSEC_ASSIGN(TensorType type, ReducedType(context));
  return std::vector<TensorType>{std::move(type)};
}

// The dtype for roots and logarithms. Integers are computed in f64 and truncated at the end.
Dtype RealDtype(Dtype dtype) { return IsFloat(dtype) ? ComputeDtype(dtype) : Dtype::kF64; }

Value* ReduceOf(Formula& f, const Node& node, OpKind kind, Value* x) {
  return f.Reduce(kind, x, node.Ints("axes"), node.Int("keepdims") != 0);
}

// sum |x|
struct ReduceL1Op {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceL1, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferReduction(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), ComputeDtype(dtype));
    Value* sum = ReduceOf(f, node, OpKind::kReduceSum, f.Unary(OpKind::kAbs, x));
    return ValueList{f.Cast(sum, dtype)};
  }
};

// sqrt(sum x^2)
struct ReduceL2Op {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceL2, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferReduction(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), RealDtype(dtype));
    Value* sum = ReduceOf(f, node, OpKind::kReduceSum, f.Mul(x, x));
    return ValueList{f.Cast(f.Unary(OpKind::kSqrt, sum), dtype)};
  }
};

// log(sum x)
struct ReduceLogSumOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceLogSum, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferReduction(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), RealDtype(dtype));
    Value* sum = ReduceOf(f, node, OpKind::kReduceSum, x);
    return ValueList{f.Cast(f.Unary(OpKind::kLog, sum), dtype)};
  }
};

// log(sum exp(x)) = m + log(sum exp(x - m)), where m is the maximum, or 0 if the maximum is
// infinite (which avoids inf - inf).
struct ReduceLogSumExpOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceLogSumExp, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferReduction(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const Dtype real = RealDtype(dtype);
    Value* x = f.Cast(node.operand(0), real);
    Value* greatest = f.Reduce(OpKind::kReduceMax, x, node.Ints("axes"));
    Value* infinity = f.Number(std::numeric_limits<double>::infinity(), real);
    Value* is_infinite = builder.Make(OpKind::kEqual, {f.Unary(OpKind::kAbs, greatest), infinity});
    Value* shift = f.Where(is_infinite, f.Number(0, real), greatest);
    Value* power = f.Unary(OpKind::kExp, f.Sub(x, shift));
    Value* sum = ReduceOf(f, node, OpKind::kReduceSum, power);
    shift = f.Reshape(shift, sum->type.shape);
    return ValueList{f.Cast(f.Add(f.Unary(OpKind::kLog, sum), shift), dtype)};
  }
};

// sum x^2
struct ReduceSumSquareOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceSumSquare, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferReduction(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    Value* x = f.Cast(node.operand(0), ComputeDtype(dtype));
    return ValueList{f.Cast(ReduceOf(f, node, OpKind::kReduceSum, f.Mul(x, x)), dtype)};
  }
};

Result<void> ImportVariadic(ImportContext& context, OpKind kind) {
  ValueList operands;
  for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
  return context.AddNode(kind, std::move(operands));
}

// All operands broadcast together, as with add.
InferResult InferVariadic(const InferContext& context) {
  FUSEC_ASSIGN(const std::vector<Shape> shapes, ShapesOfOneDtype(context));
  FUSEC_ASSIGN(Shape shape, BroadcastShapes(shapes));
  return std::vector<TensorType>{{context.operand(0).dtype, std::move(shape)}};
}

Value* SumOfOperands(Formula& f, const Node& node) {
  const Dtype dtype = ComputeDtype(node.operand(0)->type.dtype);
  Value* sum = f.Cast(node.operand(0), dtype);
  for (size_t i = 1; i < node.operands.size(); ++i) {
    sum = f.Add(sum, f.Cast(node.operands[i], dtype));
  }
  return sum;
}

// a + b + c + ..., from left to right
struct SumOp {
  static Result<void> Import(ImportContext& context) {
    return ImportVariadic(context, OpKind::kSum);
  }
  static InferResult Infer(const InferContext& context) { return InferVariadic(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    return ValueList{f.Cast(SumOfOperands(f, node), node.operand(0)->type.dtype)};
  }
};

// (a + b + c + ...) / count
struct MeanOp {
  static Result<void> Import(ImportContext& context) {
    return ImportVariadic(context, OpKind::kMean);
  }
  static InferResult Infer(const InferContext& context) { return InferVariadic(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    Value* sum = SumOfOperands(f, node);
    const double count = static_cast<double>(node.operands.size());
    if (count != 1) sum = f.Div(sum, count);
    return ValueList{f.Cast(sum, node.operand(0)->type.dtype)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(Mean)
FUSEC_DEFINE_OP(ReduceL1)
FUSEC_DEFINE_OP(ReduceL2)
FUSEC_DEFINE_OP(ReduceLogSum)
FUSEC_DEFINE_OP(ReduceLogSumExp)
FUSEC_DEFINE_OP(ReduceSumSquare)
FUSEC_DEFINE_OP(Sum)

}  // namespace fusec
