// conv: products of weights with sliding windows.
#include <fmt/format.h>

#include "compiler/import/import_context.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"
#include "compiler/ops/windows.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// The windows of a conv node of the IR.
Windows WindowsOf(const Node& node) {
  const std::vector<int64_t> weights = *StaticShape(node.operand(1)->type.shape);
  return {{weights.begin() + 2, weights.end()},
          node.Ints("strides"),
          node.Ints("dilations"),
          node.Ints("pads")};
}

// y[n, m, o...] = bias[m] + sum over c, k... of w[m, c, k...] * x[n, g*C + c, o*stride + k*dilation
// - pad ...], where g is the group of output channel m and C = channels / groups; x is 0 outside.
// Operands are x [N, G*C, spatial...], w [M, C, kernel...], bias [M].
struct ConvOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"pads", "ints"}, {"strides", "ints"}, {"dilations", "ints"}, {"group", "int"}};
  static Result<void> Import(ImportContext& context) {
    const Shape& x = context.input(0)->type.shape;
    const auto w = StaticShape(context.input(1)->type.shape);
    if (x.size() < 3) {
      return context.Fail(fmt::format("x has rank {}, expected 3 or more", x.size()));
    }
    if (!w || w->size() != x.size()) {
      return context.Fail(fmt::format("the weights are {}, expected fixed sizes and rank {}",
                                      context.input(1)->type.ToString(), x.size()));
    }
    const std::vector<int64_t> kernel(w->begin() + 2, w->end());
    if (context.Has("kernel_shape") && context.Ints("kernel_shape") != kernel) {
      return context.Fail("kernel_shape is not that of the weights " +
                          context.input(1)->type.ToString());
    }
    FUSEC_ASSIGN(const Windows windows, ImportWindows(context, x, kernel));
    ValueList operands = {context.input(0), context.input(1)};
    if (context.input_count() > 2 && context.input(2)) operands.push_back(context.input(2));
    return context.AddNode(OpKind::kConv, operands,
                           {{"pads", windows.pads},
                            {"strides", windows.strides},
                            {"dilations", windows.dilations},
                            {"group", context.Int("group", 1)}});
  }

  static InferResult Infer(const InferContext& context) {
    const TensorType& x = context.operand(0);
    const TensorType& w = context.operand(1);
    const auto weights = StaticShape(w.shape);
    const int64_t group = context.Int("group");
    if (!IsFloat(x.dtype) || w.dtype != x.dtype || x.rank() < 3 || w.rank() != x.rank() ||
        !weights) {
      return ModelError(
          fmt::format("x is {} and the weights are {}, expected floats of one type "
                      "and of one rank of 3 or more",
                      x.ToString(), w.ToString()));
    }
    if (group < 1 || (*weights)[0] % group != 0) {
      return ModelError(fmt::format("group is {}, expected a divisor of the {} output channels",
                                    group, (*weights)[0]));
    }
    if (x.shape[1] != Expr((*weights)[1] * group)) {
      return SizesDiffer(fmt::format("x has {} channels, expected {} groups of {}",
                                     x.shape[1].ToString(), group, (*weights)[1]),
                         x.shape[1], Expr((*weights)[1] * group));
    }
    if (context.has_operand(2) && (context.operand(2).dtype != x.dtype ||
                                   context.operand(2).shape != Shape{Expr((*weights)[0])})) {
      return ModelError(fmt::format("the bias is {}, expected {}[{}]",
                                    context.operand(2).ToString(), DtypeName(x.dtype),
                                    (*weights)[0]));
    }
    TensorType y{x.dtype, {x.shape[0], w.shape[0]}};
    const int count = x.rank() - 2;
    FUSEC_TRY(CheckCount("strides", context.Ints("strides").size(), count));
    FUSEC_TRY(CheckCount("dilations", context.Ints("dilations").size(), count));
    FUSEC_TRY(CheckCount("pads", context.Ints("pads").size(), 2 * count));
    const auto& pads = context.Ints("pads");
    for (int i = 0; i < count; ++i) {
      const int64_t stride = context.Ints("strides")[i];
      const int64_t dilation = context.Ints("dilations")[i];
      if (stride < 1 || dilation < 1 || pads[i] < 0 || pads[count + i] < 0) {
        return ModelError("expected strides and dilations of at least 1 and pads of at least 0");
      }
      const int64_t span = ((*weights)[2 + i] - 1) * dilation + 1;
      const Expr room = x.shape[2 + i] + (pads[i] + pads[count + i]) - span;
      if (!context.ranges.ProvenNonNegative(room)) {
        return SizeTooSmall(fmt::format("axis {} has {} elements, too few for a window of {}",
                                        2 + i, x.shape[2 + i].ToString(), span),
                            Expr(0), room);
      }
      y.shape.push_back(FloorDiv(room, stride, context.ranges) + 1);
    }
    return std::vector<TensorType>{std::move(y)};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor &x = context.input(0), &w = context.input(1);
    ReferenceTensor& y = context.output();
    const std::vector<int64_t>& strides = context.node.Ints("strides");
    const std::vector<int64_t>& dilations = context.node.Ints("dilations");
    const std::vector<int64_t>& pads = context.node.Ints("pads");
    const size_t count = strides.size();
    const std::vector<int64_t> kernel(w.dims.begin() + 2, w.dims.end());
    const std::vector<int64_t> positions(y.dims.begin() + 2, y.dims.end());
    const auto size_of = [](const ReferenceTensor& tensor) {  // of one channel
      int64_t size = 1;
      for (size_t i = 2; i < tensor.dims.size(); ++i) size *= tensor.dims[i];
      return size;
    };
    const int64_t x_size = size_of(x), w_size = size_of(w), y_size = size_of(y);
    const int64_t outputs = w.dims[0], channels = w.dims[1];
    const int64_t outputs_of_group = outputs / context.node.Int("group");
    int64_t position = 0;
    ForEachIndex(positions, [&](ArrayRef<int64_t> at) {
      // The elements of the window that lie inside: where they are in a channel and in the kernel.
      std::vector<std::pair<int64_t, int64_t>> inside;
      int64_t of_kernel = 0;
      ForEachIndex(kernel, [&](ArrayRef<int64_t> place) {
        int64_t from = 0;
        bool is_inside = true;
        for (size_t i = 0; i < count; ++i) {
          const int64_t along = at[i] * strides[i] + place[i] * dilations[i] - pads[i];
          is_inside &= along >= 0 && along < x.dims[2 + i];
          from = from * x.dims[2 + i] + along;
        }
        if (is_inside) inside.emplace_back(from, of_kernel);
        ++of_kernel;
      });
      for (int64_t row = 0; row < y.dims[0]; ++row) {
        for (int64_t output = 0; output < outputs; ++output) {
          double sum = context.has_input(2) ? context.input(2).reals[output] : 0;
          const int64_t first = output / outputs_of_group * channels;
          for (int64_t channel = 0; channel < channels; ++channel) {
            const double* of_x = x.reals.data() + (row * x.dims[1] + first + channel) * x_size;
            const double* of_w = w.reals.data() + (output * channels + channel) * w_size;
            for (const auto& [from, weight] : inside) sum += of_x[from] * of_w[weight];
          }
          y.reals[(row * outputs + output) * y_size + position] = sum;
        }
      }
      ++position;
    });
    return {};
  }

  // One matrix product: w as [G, M/G, C*K] times the windows as [N, G, C*K, positions], where K is
  // the number of kernel places.
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    Formula f(builder);
    const int64_t group = node.Int("group");
    const Shape& w = node.operand(1)->type.shape;
    const Shape& y = node.result()->type.shape;
    const Expr positions = Product(Shape(y.begin() + 2, y.end()));
    const Expr terms = Product(Shape(w.begin() + 1, w.end()));
    const Expr channels = *w[0].AsConstant() / group;
    const Windows places = WindowsOf(node);
    Value* x = PadSpatial(f, node.operand(0), places.pads, 0);
    Value* windows = WindowElements(f, x, places, Shape(y.begin() + 2, y.end()));
    Value* product = nullptr;
    if (group == 1) {
      product = f.MatMul(f.Reshape(node.operand(1), {w[0], terms}),
                         f.Reshape(windows, {y[0], terms, positions}));
    } else {
      product = f.MatMul(f.Reshape(node.operand(1), {group, channels, terms}),
                         f.Reshape(windows, {y[0], group, terms, positions}));
    }
    Value* result = f.Reshape(product, y);
    if (Value* bias = node.operand(2)) {
      result = f.Add(result, f.AlongAxis(bias, 0, static_cast<int64_t>(y.size()) - 1));
    }
    return ValueList{result};
  }
};

}  // namespace

FUSEC_DEFINE_OP(Conv)

}  // namespace fusec
