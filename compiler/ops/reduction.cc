// Reductions along axes: reduce_sum, reduce_mean, reduce_prod, reduce_max, reduce_min and arg_max,
// arg_min.
#include <cmath>
#include <limits>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

InferResult InferArithmeticReduction(const InferContext& context) {
  if (context.operand(0).dtype == Dtype::kBool) {
    return ModelError(std::string(GetOpDef(context.kind).text) + " takes numbers, found bool");
  }
  FUSEC_ASSIGN(TensorType type, ReducedType(context));
  return std::vector<TensorType>{type};
}

// sum: floats are added in double, in row-major order; integers wrap. An empty sum is 0.
void SumInto(const ReferenceTensor& x, ArrayRef<int64_t> axes, ReferenceTensor& sum) {
  ForEachReduced(x.dims, axes, [&](int64_t from, int64_t to) {
    if (IsFloat(x.dtype)) sum.reals[to] += x.reals[from];
    else sum.ints[to] += x.ints[from];
  });
}

struct ReduceSumOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceSum, 13);
  }
  static InferResult Infer(const InferContext& context) {
    return InferArithmeticReduction(context);
  }
  static Result<void> Reference(ReferenceContext& context) {
    SumInto(context.input(0), context.node.Ints("axes"), context.output());
    context.output().WrapInts();
    return {};
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    Expr sum;
    for (const Expr& x : context.operands) sum = sum + x;
    return sum;
  }
};

// mean: sum / count. Integer means are truncated toward zero, as casting NumPy's float mean does.
// The mean of no elements is NaN; for integers it is 0.
struct ReduceMeanOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceMean, 18);
  }
  static InferResult Infer(const InferContext& context) {
    return InferArithmeticReduction(context);
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& mean = context.output();
    SumInto(x, context.node.Ints("axes"), mean);
    int64_t count = 1;
    for (const int64_t axis : context.node.Ints("axes")) count *= x.dims[axis];
    for (double& value : mean.reals) value /= static_cast<double>(count);
    for (int64_t& value : mean.ints) {
      if (count == 0) value = 0;
      else if (x.dtype == Dtype::kU64) value = static_cast<uint64_t>(value) / count;
      else value /= count;
    }
    return {};
  }
};

// product: in double for floats; integers wrap. An empty product is 1.
struct ReduceProdOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceProd, 18);
  }
  static InferResult Infer(const InferContext& context) {
    return InferArithmeticReduction(context);
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& product = context.output();
    for (double& value : product.reals) value = 1.0;
    for (int64_t& value : product.ints) value = 1;
    ForEachReduced(x.dims, context.node.Ints("axes"), [&](int64_t from, int64_t to) {
      if (IsFloat(x.dtype)) product.reals[to] *= x.reals[from];
      else product.ints[to] *= x.ints[from];
    });
    product.WrapInts();
    return {};
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return Product(context.operands);
  }
};

// Maximum (or minimum). NaN wins; for bools it is "any" ("all"). The extremum of no elements is the
// value that loses against every other.
Result<void> ReferenceExtremum(ReferenceContext& context, bool want_greatest) {
  const ReferenceTensor& x = context.input(0);
  ReferenceTensor& extremum = context.output();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double& value : extremum.reals) value = want_greatest ? -kInfinity : kInfinity;
  for (int64_t& value : extremum.ints) {
    value = want_greatest ? LeastInteger(x.dtype) : GreatestInteger(x.dtype);
  }
  std::vector<int64_t> winner(extremum.element_count(), -1);
  ForEachReduced(x.dims, context.node.Ints("axes"), [&](int64_t from, int64_t to) {
    int64_t& best = winner[to];
    const bool is_nan = IsFloat(x.dtype) && std::isnan(x.reals[from]);
    if (best < 0 || is_nan) best = from;
    else if (want_greatest ? IsGreater(x, from, best) : IsGreater(x, best, from)) best = from;
    if (IsFloat(x.dtype)) extremum.reals[to] = x.reals[best];
    else extremum.ints[to] = x.ints[best];
  });
  return {};
}

InferResult InferExtremum(const InferContext& context) {
  FUSEC_ASSIGN(TensorType type, ReducedType(context));
  return std::vector<TensorType>{type};
}

struct ReduceMaxOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceMax, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferExtremum(context); }
  static Result<void> Reference(ReferenceContext& context) {
    return ReferenceExtremum(context, /*want_greatest=*/true);
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    if (context.operands.empty()) return std::nullopt;
    Expr extremum = context.operands[0];
    for (const Expr& x : context.operands) extremum = Max(extremum, x, context.ranges);
    return extremum;
  }
};

struct ReduceMinOp {
  static constexpr const auto& kAttributes = kReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportReduction(context, OpKind::kReduceMin, 18);
  }
  static InferResult Infer(const InferContext& context) { return InferExtremum(context); }
  static Result<void> Reference(ReferenceContext& context) {
    return ReferenceExtremum(context, /*want_greatest=*/false);
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    if (context.operands.empty()) return std::nullopt;
    Expr extremum = context.operands[0];
    for (const Expr& x : context.operands) extremum = Min(extremum, x, context.ranges);
    return extremum;
  }
};

// arg_max, arg_min {axes, keepdims, select_last_index}: the i64 position of the extremum along the
// one axis. NaN counts as the extremum; of equal elements the first one wins, or the last with
// select_last_index.
Result<void> ImportArgReduction(ImportContext& context, OpKind kind) {
  Result<int64_t> axis = NormalizeAxis(context.Int("axis", 0), context.input(0)->type.rank());
  if (!axis) return context.Fail(axis.error().message);
  return context.AddNode(
      kind, {context.input(0)},
      {{"axes", std::vector<int64_t>{*axis}},
       {"keepdims", int64_t{context.Int("keepdims", 1) != 0}},
       {"select_last_index", int64_t{context.Int("select_last_index", 0) != 0}}});
}

InferResult InferArgReduction(const InferContext& context) {
  const TensorType& operand = context.operand(0);
  const std::vector<int64_t>& axes = context.Ints("axes");
  if (axes.size() != 1) {
    return ModelError(std::to_string(axes.size()) + " axes are given, expected 1");
  }
  FUSEC_ASSIGN(TensorType type, ReducedType(context));
  const int64_t axis = axes[0];
  const char* text = GetOpDef(context.kind).text;
  if (operand.dtype == Dtype::kBool) {
    return ModelError(std::string(text) + " takes numbers, found bool");
  }
  if (operand.shape[axis].IsConstant(0)) {
    return ModelError(std::string(text) + " looks along axis " + std::to_string(axis) +
                      ", which is empty");
  }
  type.dtype = Dtype::kI64;
  return std::vector<TensorType>{std::move(type)};
}

Result<void> ReferenceArgReduction(ReferenceContext& context, bool want_greatest) {
  const ReferenceTensor& x = context.input(0);
  const int64_t axis = context.node.Ints("axes")[0];
  const bool select_last = context.node.Int("select_last_index") != 0;
  int64_t stride = 1;
  for (size_t i = axis + 1; i < x.dims.size(); ++i) stride *= x.dims[i];
  const auto is_nan = [&](int64_t i) { return IsFloat(x.dtype) && std::isnan(x.reals[i]); };
  std::vector<int64_t> winner(context.output().element_count(), -1);
  ForEachReduced(x.dims, {axis}, [&](int64_t from, int64_t to) {
    int64_t& best = winner[to];
    if (best < 0) {
      best = from;
      return;
    }
    const bool beats = is_nan(from)    ? !is_nan(best)
                       : want_greatest ? IsGreater(x, from, best)
                                       : IsGreater(x, best, from);
    const bool ties = is_nan(from)
                          ? is_nan(best)
                          : !is_nan(best) && !IsGreater(x, from, best) && !IsGreater(x, best, from);
    if (beats || (ties && select_last)) best = from;
  });
  for (size_t i = 0; i < winner.size(); ++i) {
    if (winner[i] < 0) {
      return Fail(ErrorKind::kInput, std::string(GetOpDef(context.node.kind).text) +
                                         " looks along axis " + std::to_string(axis) +
                                         ", which is empty");
    }
    context.output().ints[i] = winner[i] / stride % x.dims[axis];
  }
  return {};
}

constexpr AttributeSpec kArgReductionAttributes[] = {
    {"axes", "ints"}, {"keepdims", "int"}, {"select_last_index", "int"}};

struct ArgMaxOp {
  static constexpr const auto& kAttributes = kArgReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportArgReduction(context, OpKind::kArgMax);
  }
  static InferResult Infer(const InferContext& context) { return InferArgReduction(context); }
  static Result<void> Reference(ReferenceContext& context) {
    return ReferenceArgReduction(context, /*want_greatest=*/true);
  }
};

struct ArgMinOp {
  static constexpr const auto& kAttributes = kArgReductionAttributes;
  static Result<void> Import(ImportContext& context) {
    return ImportArgReduction(context, OpKind::kArgMin);
  }
  static InferResult Infer(const InferContext& context) { return InferArgReduction(context); }
  static Result<void> Reference(ReferenceContext& context) {
    return ReferenceArgReduction(context, /*want_greatest=*/false);
  }
};

}  // namespace

FUSEC_DEFINE_OP(ArgMax)
FUSEC_DEFINE_OP(ArgMin)
FUSEC_DEFINE_OP(ReduceMax)
FUSEC_DEFINE_OP(ReduceMean)
FUSEC_DEFINE_OP(ReduceMin)
FUSEC_DEFINE_OP(ReduceProd)
FUSEC_DEFINE_OP(ReduceSum)

}  // namespace fusec
