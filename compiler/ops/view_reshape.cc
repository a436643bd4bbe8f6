// Views that keep every element once: identity, reshape, transpose.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/index/reshape.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The shape without `axes` (Squeeze). If no axes are given, every dim that is known to be 1 is
// removed; symbolic dims stay.
Result<Shape> SqueezedShape(const ImportContext& context, ShapeRef shape) {
  const int rank = static_cast<int>(shape.size());
  FUSEC_ASSIGN(std::optional<std::vector<int64_t>> axes, AxesFromAttributeOrInput(context, 1));
  if (axes) {
    FUSEC_ASSIGN(axes, ImportAxes(context, *axes, rank));
  }
  Shape squeezed;
  for (int i = 0; i < rank; ++i) {
    const Ranges::Interval interval = context.ranges().IntervalOf(shape[i]);
    const bool is_one = interval.low == 1 && interval.high == 1;
    const bool named = axes && std::find(axes->begin(), axes->end(), i) != axes->end();
    if (named && !is_one) {
      return context.Fail(
          fmt::format("axis {} has {} elements, expected 1", i, shape[i].ToString()));
    }
    if (!(axes ? named : is_one)) squeezed.push_back(shape[i]);
  }
  return squeezed;
}

Result<Shape> UnsqueezedShape(const ImportContext& context, ShapeRef shape) {
  FUSEC_ASSIGN(const std::optional<std::vector<int64_t>> given,
               AxesFromAttributeOrInput(context, 1));
  if (!given) return context.Fail("axes is missing");
  const int rank = static_cast<int>(shape.size() + given->size());
  FUSEC_ASSIGN(const std::vector<int64_t> axes, ImportAxes(context, *given, rank));
  Shape unsqueezed;
  size_t next = 0;
  for (int i = 0; i < rank; ++i) {
    const bool is_new = std::find(axes.begin(), axes.end(), i) != axes.end();
    unsqueezed.push_back(is_new ? Expr(1) : shape[next++]);
  }
  return unsqueezed;
}

Result<Shape> FlattenedShape(const ImportContext& context, ShapeRef shape) {
  const int rank = static_cast<int>(shape.size());
  const int64_t given = context.Int("axis", 1);
  const int64_t axis = given < 0 ? given + rank : given;  // may be the rank itself
  if (axis < 0 || axis > rank) {
    return context.Fail(fmt::format("axis is {}, but the rank is {}", given, rank));
  }
  return Shape{Product(Shape(shape.begin(), shape.begin() + axis)),
               Product(Shape(shape.begin() + axis, shape.end()))};
}

// product of `total` / product of `known`, for the -1 of a Reshape.
Result<Expr> InferredDim(const ImportContext& context, Shape total, ShapeRef known) {
  Shape rest;
  for (const Expr& dim : known) {
    auto match = std::find(total.begin(), total.end(), dim);
    if (match == total.end()) {
      rest.push_back(dim);
    } else {
      total.erase(match);
    }
  }
  const Expr dividend = Product(total);
  const Expr divisor = Product(rest);
  if (divisor.IsConstant(0)) {
    return context.Fail("shape has a -1 beside a 0, so that its size is not determined");
  }
  const Expr quotient = FloorDiv(dividend, divisor, context.ranges());
  if (!ProvenEqual(quotient * divisor, dividend, context.ranges())) {
    return DoesNotDivide(fmt::format("shape has a -1, but {} elements do not divide by {}",
                                     dividend.ToString(), divisor.ToString()),
                         dividend, divisor, context.ranges());
  }
  return quotient;
}

// In ONNX's shape, 0 copies a dim of the input unless allowzero = 1, and a single -1 stands for the
// remaining elements.
Result<Shape> ReshapedShape(const ImportContext& context, ShapeRef shape) {
  FUSEC_ASSIGN(Exprs wanted, context.SymbolicInts(1, "shape"));
  const bool allow_zero = context.Int("allowzero", 0) != 0;
  int inferred = -1;
  Shape known;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::optional<int64_t> number = wanted[i].AsConstant();
    if (number && *number < -1) {
      return context.Fail(fmt::format("shape[{}] is {}, expected -1 or more", i, *number));
    }
    if (number == -1) {
      if (inferred >= 0) return context.Fail("shape has more than one -1");
      inferred = static_cast<int>(i);
      continue;
    }
    if (number == 0 && !allow_zero) {
      if (i >= shape.size()) {
        return context.Fail(
            fmt::format("shape[{}] is 0, but the data has rank {}", i, shape.size()));
      }
      wanted[i] = shape[i];
    }
    known.push_back(wanted[i]);
  }
  if (inferred >= 0) {
    FUSEC_ASSIGN(wanted[inferred], InferredDim(context, Shape(shape), known));
  }
  return wanted;
}

}  // namespace

// result = operand; also Dropout, which does nothing at inference.
struct IdentityOp {
  static Result<void> Import(ImportContext& context) {
    if (context.onnx_op() == "Dropout" && HasInput(context, 2)) {
      FUSEC_ASSIGN(const TensorData training, context.ConstantInput(2, "training_mode"));
      if (training.element_count() != 1 || training.GetInt(0) != 0) {
        return context.Fail("training_mode is true, expected false");
      }
    }
    FUSEC_ASSIGN(Value * value, AddView(context, OpKind::kIdentity, {context.input(0)}, {}));
    context.SetOutput(0, value);
    if (context.output_count() > 1 && context.output_used(1)) {
      Value* kept = context.builder().Scalar(Dtype::kBool, 1);
      FUSEC_ASSIGN(Value * mask,
                   AddView(context, OpKind::kExpand, {kept}, {{"shape", value->type.shape}}));
      context.SetOutput(1, mask);
    }
    return {};
  }
  static InferResult Infer(const InferContext& context) {
    return std::vector<TensorType>{context.operand(0)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    context.output() = context.input(0);
    return {};
  }
  static Scalar Lower(LowerContext& context) { return context.Load(0, context.index()); }
};
FUSEC_DEFINE_OP(Identity)

// The same elements in the same row-major order, with other dims.
struct ReshapeOp {
  static constexpr AttributeSpec kAttributes[] = {{"shape", "dims"}};
  static Result<void> Import(ImportContext& context) {
    Value* data = context.input(0);
    const std::string& op = context.onnx_op();
    FUSEC_ASSIGN(Shape shape, op == "Squeeze"     ? SqueezedShape(context, data->type.shape)
                              : op == "Unsqueeze" ? UnsqueezedShape(context, data->type.shape)
                              : op == "Flatten"   ? FlattenedShape(context, data->type.shape)
                                                  : ReshapedShape(context, data->type.shape));
    return context.AddNode(OpKind::kReshape, {data}, {{"shape", std::move(shape)}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const Shape& shape = context.Dims("shape");
    if (!SameElementCount(data.shape, shape, context.ranges)) {
      return SizesDiffer(fmt::format("cannot reshape {} to {}: the element counts are not the same",
                                     data.ToString(), ShapeText(shape)),
                         Product(data.shape), Product(shape));
    }
    return std::vector<TensorType>{{data.dtype, shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    context.output().reals = context.input(0).reals;
    context.output().ints = context.input(0).ints;
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    return context.Load(0,
                        IndexBeforeReshape(context.index(), context.node().operand(0)->type.shape,
                                           context.node().result()->type.shape, context.ranges()));
  }
};
FUSEC_DEFINE_OP(Reshape)

// result[i_0, ..., i_n] = operand[j] with j[perm[a]] = i_a.
struct TransposeOp {
  static constexpr AttributeSpec kAttributes[] = {{"perm", "ints"}};
  static Result<void> Import(ImportContext& context) {
    std::vector<int64_t> perm = context.Ints("perm");
    if (!context.Has("perm")) {
      for (int i = context.input(0)->type.rank() - 1; i >= 0; --i) perm.push_back(i);
    }
    return context.AddNode(OpKind::kTranspose, {context.input(0)}, {{"perm", std::move(perm)}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const std::vector<int64_t>& perm = context.Ints("perm");
    FUSEC_TRY(CheckCount("perm", perm.size(), data.shape.size()));
    std::vector<bool> seen(perm.size());
    TensorType result{data.dtype, {}};
    for (int64_t axis : perm) {
      FUSEC_TRY(CheckAxis(axis, data.rank()));
      if (seen[axis]) return ModelError(fmt::format("perm names axis {} twice", axis));
      seen[axis] = true;
      result.shape.push_back(data.shape[axis]);
    }
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::vector<int64_t>& perm = context.node.Ints("perm");
    const std::vector<int64_t> of_input = StridesOf(context.input(0).dims);
    std::vector<int64_t> strides;
    for (const int64_t axis : perm) strides.push_back(of_input[axis]);
    MoveElements(context, 0, strides);
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const std::vector<int64_t>& perm = context.node().Ints("perm");
    Exprs source(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) source[perm[i]] = context.index()[i];
    return context.Load(0, source);
  }
};
FUSEC_DEFINE_OP(Transpose)

}  // namespace fusec
