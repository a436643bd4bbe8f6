// layer_normalization {axis, epsilon, stash} and rms_normalization {axis, epsilon}: normalization
// over the trailing axes, with a scale per element.
#include <fmt/format.h>

#include <cmath>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/operand_checks.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// The ONNX attribute `stash_type` selects the precision of the computation. fusec computes f16 and
// bf16 in f32 in any case, so here it only sets the dtype of the statistics outputs.
Result<Dtype> ImportStash(const ImportContext& context) {
  switch (context.Int("stash_type", 1)) {
    case 1:
      return Dtype::kF32;
    case 10:
      return Dtype::kF16;
    case 11:
      return Dtype::kF64;
    case 16:
      return Dtype::kBF16;
  }
  return context.Fail(fmt::format("stash_type is {}, expected a float type (1, 10, 11 or 16)",
                                  context.Int("stash_type", 1)));
}

Result<void> ImportTrailingNormalization(ImportContext& context, OpKind kind,
                                         Attributes attributes) {
  Result<int64_t> axis = NormalizeAxis(context.Int("axis", -1), context.input(0)->type.rank());
  if (!axis) return context.Fail(axis.error().message);
  attributes["axis"] = *axis;
  attributes["epsilon"] = context.Float("epsilon", 1e-5);
  ValueList operands;
  for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
  return context.AddNode(kind, std::move(operands), std::move(attributes));
}

// An error unless x is of floats, axis is within its rank, and scale and bias broadcast to x.
Result<void> CheckTrailingNormalization(const InferContext& context) {
  FUSEC_TRY(CheckFloatsAlongAxis(context));
  const TensorType& x = context.operand(0);
  for (int i = 1; i < 3; ++i) {
    if (!context.has_operand(i)) continue;
    const TensorType& factor = context.operand(i);
    const Result<Shape> shape = BroadcastShapes({x.shape, factor.shape});
    if (!IsFloat(factor.dtype) || !shape || *shape != x.shape) {
      return ModelError(fmt::format("{} is {}, expected floats that broadcast to {}",
                                    i == 1 ? "scale" : "bias", factor.ToString(), x.ToString()));
    }
  }
  return {};
}

// The element of a scale or bias that broadcasts to element `index` of x.
double BroadcastElement(const ReferenceTensor& factor, ArrayRef<int64_t> index) {
  return factor.reals[BroadcastPosition(factor.dims, index)];
}

// Elements per row: the product of the dims from `axis` on.
int64_t RowLength(const ReferenceTensor& x, int64_t axis) {
  int64_t length = 1;
  for (size_t i = axis; i < x.dims.size(); ++i) length *= x.dims[i];
  return length;
}

// d = x - mean(x),   deviation = sqrt(mean(d^2) + epsilon),   y = d / deviation * scale + bias
// Results are y, mean(x) and 1 / deviation.
struct LayerNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {"epsilon", "float"}, {"stash", "dtype"}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const Dtype stash, ImportStash(context));
    return ImportTrailingNormalization(context, OpKind::kLayerNormalization, {{"stash", stash}});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckTrailingNormalization(context));
    const TensorType& x = context.operand(0);
    TensorType statistic{std::get<Dtype>(context.attributes.at("stash")), x.shape};
    for (int i = static_cast<int>(context.Int("axis")); i < x.rank(); ++i) {
      statistic.shape[i] = Expr(1);
    }
    return std::vector<TensorType>{x, statistic, statistic};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    const int64_t length = RowLength(x, context.node.Int("axis"));
    std::vector<double>& means = context.output(1).reals;
    std::vector<double>& inverses = context.output(2).reals;
    for (size_t row = 0; row < means.size(); ++row) {
      const double* values = x.reals.data() + row * length;
      double sum = 0;
      for (int64_t k = 0; k < length; ++k) sum += values[k];
      means[row] = sum / static_cast<double>(length);
      double squares = 0;
      for (int64_t k = 0; k < length; ++k) squares += std::pow(values[k] - means[row], 2);
      inverses[row] =
          1 / std::sqrt(squares / static_cast<double>(length) + context.node.Float("epsilon"));
    }
    int64_t i = 0;
    ForEachIndex(x.dims, [&](ArrayRef<int64_t> index) {
      const int64_t row = i / length;
      double& y = context.output().reals[i];
      y = (x.reals[i] - means[row]) * inverses[row] * BroadcastElement(context.input(1), index);
      if (context.has_input(2)) y += BroadcastElement(context.input(2), index);
      ++i;
    });
    return {};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const Dtype compute = ComputeDtype(dtype);
    const Dtype stash = node.Get<Dtype>("stash");
    Value* x = f.Cast(node.operand(0), compute);
    const std::vector<int64_t> axes = AxesFrom(node.Int("axis"), x->type.rank());
    Value* mean = f.Mean(x, axes, "mean");
    Value* d = f.Sub(x, mean, "centered");
    Value* variance = f.Mean(f.Mul(d, d, "square"), axes, "variance");
    Value* epsilon = f.Number(node.Float("epsilon"), compute, "epsilon");
    Value* deviation = f.Unary(OpKind::kSqrt, f.Add(variance, epsilon), "deviation");
    Value* y = f.Mul(f.Div(d, deviation), f.Cast(node.operand(1), compute));
    if (node.operand(2) != nullptr) y = f.Add(y, f.Cast(node.operand(2), compute));
    return ValueList{f.Cast(y, dtype), f.Cast(mean, stash),
                     f.Cast(f.Unary(OpKind::kReciprocal, deviation), stash)};
  }
};

// y = x / sqrt(mean(x^2) + epsilon) * scale
struct RMSNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}, {"epsilon", "float"}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_TRY(ImportStash(context));
    return ImportTrailingNormalization(context, OpKind::kRMSNormalization, {});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckTrailingNormalization(context));
    return std::vector<TensorType>{context.operand(0)};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    const int64_t length = RowLength(x, context.node.Int("axis"));
    double root = 0;
    int64_t i = 0;
    ForEachIndex(x.dims, [&](ArrayRef<int64_t> index) {
      if (i % length == 0) {
        double squares = 0;
        for (int64_t k = 0; k < length; ++k) squares += x.reals[i + k] * x.reals[i + k];
        root = std::sqrt(squares / static_cast<double>(length) + context.node.Float("epsilon"));
      }
      context.output().reals[i] = x.reals[i] / root * BroadcastElement(context.input(1), index);
      ++i;
    });
    return {};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const Dtype compute = ComputeDtype(dtype);
    Value* x = f.Cast(node.operand(0), compute);
    const std::vector<int64_t> axes = AxesFrom(node.Int("axis"), x->type.rank());
    Value* mean_square = f.Mean(f.Mul(x, x, "square"), axes, "mean_square");
    Value* epsilon = f.Number(node.Float("epsilon"), compute, "epsilon");
    Value* root = f.Unary(OpKind::kSqrt, f.Add(mean_square, epsilon), "root");
    Value* y = f.Mul(f.Div(x, root), f.Cast(node.operand(1), compute));
    return ValueList{f.Cast(y, dtype)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(LayerNormalization)
FUSEC_DEFINE_OP(RMSNormalization)

}  // namespace fusec
