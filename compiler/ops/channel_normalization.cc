// Normalizations of [N, C, ...] tensors with a scale per channel: batch, group, instance; and
// mean_variance_normalization without one.
#include <fmt/format.h>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"

namespace fusec {
namespace {

Result<void> CheckFloats(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) {
    const Dtype dtype = context.operand(static_cast<int>(i)).dtype;
    if (!IsFloat(dtype)) {
      return ModelError(
          fmt::format("operand {} is {}, expected a float type", i, DtypeName(dtype)));
    }
  }
  return {};
}

Result<void> CheckVector(const InferContext& context, int i, const Expr& length) {
  const TensorType& vector = context.operand(i);
  if (vector.rank() == 1 && vector.shape[0] == length) return {};
  return ModelError(
      fmt::format("operand {} is {}, expected [{}]", i, vector.ToString(), length.ToString()));
}

// Reshapes [count] to [count, 1, 1, ...], so that it broadcasts along axis `axis` of a tensor of
// `rank`.
Value* AlongAxis(Formula& f, Value* vector, int axis, int rank) {
  Shape shape(rank - axis, Expr(1));
  shape[0] = vector->type.shape[0];
  return f.Reshape(vector, shape);
}

// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over `axes`
Value* Normalized(Formula& f, Value* x, ArrayRef<int64_t> axes, double epsilon) {
  Value* d = f.Sub(x, f.Mean(x, axes, "mean"), "centered");
  Value* variance = f.Mean(f.Mul(d, d, "square"), axes, "variance");
  Value* least = f.Number(epsilon, x->type.dtype, "epsilon");
  return f.Div(d, f.Unary(OpKind::kSqrt, f.Add(variance, least), "deviation"));
}

//   factor = scale / sqrt(variance + epsilon)
//   offset = bias - mean * factor
//   y = x * factor + offset
// If the statistics are constant, factor and offset are folded to constants [C]. Operands are x,
// scale, bias, mean, variance.
struct BatchNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {{"epsilon", "float"}};
  static Result<void> Import(ImportContext& context) {
    if (context.opset() >= 14 && context.Int("training_mode", 0) != 0) {
      return context.Fail("training_mode is 1, expected 0: fusec compiles inference");
    }
    if (context.opset() < 9 && context.Int("spatial", 1) != 1) {
      return context.Fail("spatial is 0, expected 1");
    }
    for (int i = 1; i < context.output_count(); ++i) {
      if (context.output_used(i)) {
        return context.Fail(fmt::format("output {} is used, which only training gives", i));
      }
    }
    ValueList operands;
    for (int i = 0; i < 5; ++i) operands.push_back(context.input(i));
    return context.AddNode(OpKind::kBatchNormalization, std::move(operands),
                           {{"epsilon", context.Float("epsilon", 1e-5)}});
  }

  // x of rank 1 is a batch with one channel.
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context));
    const TensorType& x = context.operand(0);
    if (x.rank() == 0) return ModelError("the operand is a scalar, expected rank 1 or more");
    for (int i = 1; i < 5; ++i) {
      FUSEC_TRY(CheckVector(context, i, x.rank() == 1 ? Expr(1) : x.shape[1]));
    }
    return std::vector<TensorType>{x};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const Dtype compute = ComputeDtype(dtype);
    const auto operand = [&](int i) { return f.Cast(node.operand(i), compute); };
    Value* deviation = f.Unary(OpKind::kSqrt, f.Add(operand(4), node.Float("epsilon")));
    Value* factor = f.Div(operand(1), deviation);
    Value* offset = f.Sub(operand(2), f.Mul(operand(3), factor));
    const int rank = node.operand(0)->type.rank();
    const int axis = rank == 1 ? 0 : 1;
    Value* y = f.Add(f.Mul(operand(0), AlongAxis(f, factor, axis, rank)),
                     AlongAxis(f, offset, axis, rank));
    return ValueList{f.Cast(y, dtype)};
  }
};

// {epsilon, num_groups, per_group}: C / num_groups channels with all their positions are normalized
// together. Scale and bias are per channel, or per group (ONNX before opset 21).
struct GroupNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"epsilon", "float"}, {"num_groups", "int"}, {"per_group", "int"}};
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kGroupNormalization,
                           {context.input(0), context.input(1), context.input(2)},
                           {{"epsilon", context.Float("epsilon", 1e-5)},
                            {"num_groups", context.Int("num_groups", 0)},
                            {"per_group", int64_t{context.opset() < 21}}});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context));
    const TensorType& x = context.operand(0);
    const int64_t groups = context.Int("num_groups");
    if (x.rank() < 2)
      return ModelError(fmt::format("the rank is {}, expected 2 or more", x.rank()));
    const std::optional<int64_t> channels = x.shape[1].AsConstant();
    if (!channels || groups < 1 || *channels % groups != 0) {
      return ModelError(fmt::format("num_groups is {}, expected a divisor of the {} channels",
                                    groups, x.shape[1].ToString()));
    }
    const Expr length = context.Int("per_group") != 0 ? Expr(groups) : x.shape[1];
    for (int i = 1; i < 3; ++i) FUSEC_TRY(CheckVector(context, i, length));
    return std::vector<TensorType>{x};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const TensorType& type = node.operand(0)->type;
    const Dtype compute = ComputeDtype(type.dtype);
    const int64_t groups = node.Int("num_groups");
    const int64_t channels = *type.shape[1].AsConstant();
    Shape grouped = {type.shape[0], Expr(groups), Expr(channels / groups)};
    grouped.insert(grouped.end(), type.shape.begin() + 2, type.shape.end());
    const int rank = static_cast<int>(grouped.size());
    Value* x = f.Reshape(f.Cast(node.operand(0), compute), grouped);
    Value* y = Normalized(f, x, AxesFrom(2, rank), node.Float("epsilon"));
    const auto per_group = [&](int i) {  // [groups, 1 or C / groups, 1, ...]
      Value* vector = f.Cast(node.operand(i), compute);
      if (node.Int("per_group") != 0) return AlongAxis(f, vector, 1, rank);
      Shape shape(rank - 1, Expr(1));
      shape[0] = Expr(groups);
      shape[1] = Expr(channels / groups);
      return f.Reshape(vector, shape);
    };
    Value* scale = per_group(1);
    y = f.Mul(y, scale);
    y = f.Add(y, per_group(2));
    return ValueList{f.Cast(f.Reshape(y, type.shape), type.dtype)};
  }
};

// {epsilon}: normalizes every channel of every sample separately. Operands are x, scale, bias.
struct InstanceNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {{"epsilon", "float"}};
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kInstanceNormalization,
                           {context.input(0), context.input(1), context.input(2)},
                           {{"epsilon", context.Float("epsilon", 1e-5)}});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context));
    const TensorType& x = context.operand(0);
    if (x.rank() < 3)
      return ModelError(fmt::format("the rank is {}, expected 3 or more", x.rank()));
    for (int i = 1; i < 3; ++i) FUSEC_TRY(CheckVector(context, i, x.shape[1]));
    return std::vector<TensorType>{x};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const Dtype compute = ComputeDtype(dtype);
    const int rank = node.operand(0)->type.rank();
    Value* x = f.Cast(node.operand(0), compute);
    Value* y = Normalized(f, x, AxesFrom(2, rank), node.Float("epsilon"));
    y = f.Mul(y, AlongAxis(f, f.Cast(node.operand(1), compute), 1, rank));
    y = f.Add(y, AlongAxis(f, f.Cast(node.operand(2), compute), 1, rank));
    return ValueList{f.Cast(y, dtype)};
  }
};

// {axes}: (x - mean) / (sqrt(mean((x - mean)^2)) + 1e-9)
struct MeanVarianceNormalizationOp {
  static constexpr AttributeSpec kAttributes[] = {{"axes", "ints"}};
  static Result<void> Import(ImportContext& context) {
    std::vector<int64_t> axes = {0, 2, 3};
    if (context.Has("axes")) axes = context.Ints("axes");
    Result<std::vector<int64_t>> normalized =
        NormalizeAxes(std::move(axes), context.input(0)->type.rank());
    if (!normalized) return context.Fail(normalized.error().message);
    return context.AddNode(OpKind::kMeanVarianceNormalization, {context.input(0)},
                           {{"axes", *std::move(normalized)}});
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context));
    FUSEC_TRY(NormalizeAxes(context.Ints("axes"), context.operand(0).rank()));
    return std::vector<TensorType>{context.operand(0)};
  }

  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const Dtype dtype = node.operand(0)->type.dtype;
    const std::vector<int64_t>& axes = node.Ints("axes");
    Value* x = f.Cast(node.operand(0), ComputeDtype(dtype));
    Value* d = f.Sub(x, f.Mean(x, axes, "mean"), "centered");
    Value* variance = f.Mean(f.Mul(d, d, "square"), axes, "variance");
    Value* y = f.Div(d, f.Add(f.Unary(OpKind::kSqrt, variance, "deviation"), 1e-9));
    return ValueList{f.Cast(y, dtype)};
  }
};

}  // namespace

FUSEC_DEFINE_OP(BatchNormalization)
FUSEC_DEFINE_OP(GroupNormalization)
FUSEC_DEFINE_OP(InstanceNormalization)
FUSEC_DEFINE_OP(MeanVarianceNormalization)

}  // namespace fusec
