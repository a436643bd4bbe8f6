// unfold: windows that slide along an axis, as convolutions and pools read them.
#include <fmt/format.h>

#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/view_support.h"

namespace fusec {

// result[..., k, o, ...] = operand[..., o * stride + k * dilation, ...]: axis `axis` is replaced by
// the `size` elements of a window and by the windows, of which there are as many as lie within the
// axis.
struct UnfoldOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {"size", "int"}, {"stride", "int"}, {"dilation", "int"}};
  static InferResult Infer(const InferContext& context) {
    TensorType result = context.operand(0);
    const int64_t axis = context.Int("axis"), size = context.Int("size");
    const int64_t stride = context.Int("stride"), dilation = context.Int("dilation");
    FUSEC_TRY(CheckAxis(axis, result.rank()));
    if (size < 1 || stride < 1 || dilation < 1) {
      return ModelError(
          fmt::format("size, stride and dilation are {}, {} and {}, expected 1 or more", size,
                      stride, dilation));
    }
    const Expr extent = result.shape[axis];
    const Expr span = Expr(size - 1) * dilation + 1;
    if (!context.ranges.ProvenNonNegative(extent - span)) {
      return SizeTooSmall(fmt::format("axis {} has {} elements, too few for a window of {}", axis,
                                      extent.ToString(), span.ToString()),
                          Expr(0), extent - span);
    }
    result.shape[axis] = FloorDiv(extent - span, stride, context.ranges) + 1;
    result.shape.insert(result.shape.begin() + axis, Expr(size));
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const int64_t stride = context.node.Int("stride"), dilation = context.node.Int("dilation");
    std::vector<int64_t> strides = StridesOf(context.input(0).dims);
    strides.insert(strides.begin() + axis, strides[axis] * dilation);
    strides[axis + 1] *= stride;
    MoveElements(context, 0, strides);
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t axis = context.node().Int("axis");
    const int64_t stride = context.node().Int("stride"), dilation = context.node().Int("dilation");
    Exprs source = context.index();
    source[axis] = source[axis + 1] * stride + source[axis] * dilation;
    source.erase(source.begin() + axis + 1);
    return context.Load(0, source);
  }
};
FUSEC_DEFINE_OP(Unfold)

}  // namespace fusec
