// ConvTranspose: the convolution of data between whose elements zeros are inserted.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/import_context.h"
#include "compiler/index/reshape.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"
#include "compiler/ops/windows.h"

namespace fusec {
namespace {

using Numbers = std::vector<int64_t>;

// Along each spatial axis, element o of the result is the sum of x[i] * w[k] over all i and k with
// o = i * stride + k * dilation - begin; there are stride * (size - 1) + span + more of them, where
// span = (kernel - 1) * dilation + 1.
struct Axes {
  Numbers kernel, strides, dilations, begins, more;

  size_t count() const { return kernel.size(); }
  int64_t Span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// Reads the attributes. Pads are given, or follow from the sizes that auto_pad or output_shape ask
// for, as ONNX's documentation has it.
Result<Axes> ReadAxes(const ImportContext& context, const Shape& x, Numbers kernel) {
  Axes axes;
  const size_t count = kernel.size();
  axes.kernel = std::move(kernel);
  FUSEC_ASSIGN(axes.strides, PerAxis(context, "strides", count, 1));
  FUSEC_ASSIGN(axes.dilations, PerAxis(context, "dilations", count, 1));
  FUSEC_ASSIGN(const Numbers added, PerAxis(context, "output_padding", count, 0));
  FUSEC_ASSIGN(const Numbers pads, PerAxis(context, "pads", 2 * count, 0));
  const auto all_within = [](const Numbers& values, int64_t least) {
    constexpr int64_t kMost = 1 << 24;  // so that sums of products stay in range
    return std::all_of(values.begin(), values.end(),
                       [&](int64_t value) { return least <= value && value <= kMost; });
  };
  if (!all_within(axes.strides, 1) || !all_within(axes.dilations, 1) || !all_within(added, 0) ||
      !all_within(pads, 0)) {
    return context.Fail(
        "expected strides and dilations of at least 1, pads and output_padding of at least 0, and "
        "none above 2^24");
  }
  const std::string automatic = context.String("auto_pad", "NOTSET");
  const bool is_upper = automatic == "SAME_UPPER", is_same = is_upper || automatic == "SAME_LOWER";
  if (!is_same && automatic != "NOTSET" && automatic != "VALID")
    return context.Fail("auto_pad is " + automatic + ", which is none of ONNX's values");
  const bool has_shape = context.Has("output_shape");
  Numbers wanted;
  if (has_shape) {
    wanted = context.Ints("output_shape");
    if (wanted.size() == count + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (wanted.size() != count)
      return context.Fail(fmt::format("output_shape is not {} sizes", count));
  }
  for (size_t i = 0; i < count; ++i) {
    int64_t rest = added[i];
    int64_t begin = pads[i], end = pads[count + i];
    if (is_same || has_shape) {
      // The result's size without pads, less the one that is asked for.
      int64_t surplus = axes.Span(i) - axes.strides[i] + rest;
      if (has_shape) {
        const auto size = x[2 + i].AsConstant();
        if (!size) {
          return context.Fail(fmt::format("output_shape needs a fixed size of axis {}, found {}",
                                          2 + i, x[2 + i].ToString()));
        }
        surplus += axes.strides[i] * *size - wanted[i];
      }
      const int64_t total = std::max<int64_t>(surplus, 0);
      begin = is_upper ? total / 2 : total - total / 2;
      end = total - begin;
      rest -= std::min<int64_t>(surplus, 0);
    }
    axes.begins.push_back(begin);
    axes.more.push_back(rest - begin - end);
  }
  return axes;
}

// x with stride - 1 zeros between neighbours.
Value* WithZerosBetween(Formula& f, Value* x, const Axes& axes) {
  const Shape shape = x->type.shape;
  Shape apart(shape.begin(), shape.begin() + 2), joined = apart;
  Numbers pads(2 * axes.count(), 0);
  for (size_t i = 0; i < axes.count(); ++i) {
    apart.insert(apart.end(), {shape[2 + i], Expr(1)});
    joined.push_back(shape[2 + i] * axes.strides[i]);
    pads.insert(pads.end(), {0, axes.strides[i] - 1});
  }
  x = f.Reshape(PadSpatial(f, f.Reshape(x, apart), pads, 0), joined);
  for (size_t i = 0; i < axes.count(); ++i) {
    if (axes.strides[i] == 1) continue;
    x = f.Slice(x, static_cast<int>(2 + i), 0, (shape[2 + i] - 1) * axes.strides[i] + 1);
  }
  return x;
}

// The weights [C, M/G, kernel...] as those of a convolution, [M, C/G, kernel...], from their ends.
Value* Turned(Formula& f, Value* w, const Numbers& sizes, int64_t group) {
  for (size_t axis = 2; axis < sizes.size(); ++axis) {
    if (sizes[axis] > 1) w = f.Slice(w, static_cast<int>(axis), sizes[axis] - 1, sizes[axis], -1);
  }
  const int64_t inputs = sizes[0] / group, outputs = sizes[1];
  Shape apart = {group, inputs, outputs}, joined = {group * outputs, inputs};
  Numbers perm = {0, 2, 1};
  for (size_t axis = 2; axis < sizes.size(); ++axis) {
    apart.push_back(sizes[axis]);
    joined.push_back(sizes[axis]);
    perm.push_back(static_cast<int64_t>(axis) + 1);
  }
  return f.Reshape(f.Transpose(f.Reshape(w, apart), perm), joined);
}

}  // namespace

Result<void> ImportConvTranspose(ImportContext& context) {
  Value *x = context.input(0), *w = context.input(1);
  const Shape& shape = x->type.shape;
  const auto sizes = StaticShape(w->type.shape);
  const int64_t group = context.Int("group", 1);
  if (shape.size() < 3 || !sizes || sizes->size() != shape.size()) {
    return context.Fail(
        fmt::format("x is {} and the weights are {}, expected one rank of 3 or more "
                    "and fixed sizes of the weights",
                    x->type.ToString(), w->type.ToString()));
  }
  if (group < 1 || (*sizes)[0] % group != 0 || (*sizes)[0] == 0) {
    return context.Fail(fmt::format("group is {}, expected a divisor of the {} input channels",
                                    group, (*sizes)[0]));
  }
  if (!ProvenEqual(shape[1], Expr((*sizes)[0]), context.ranges())) {
    return SizesDiffer(
        fmt::format("x has {} channels, expected {}", shape[1].ToString(), (*sizes)[0]), shape[1],
        Expr((*sizes)[0]));
  }
  const Numbers kernel(sizes->begin() + 2, sizes->end());
  if (context.Has("kernel_shape") && context.Ints("kernel_shape") != kernel)
    return context.Fail("kernel_shape is not that of the weights " + w->type.ToString());
  FUSEC_ASSIGN(const Axes axes, ReadAxes(context, shape, kernel));
  Formula f(context);
  x = WithZerosBetween(f, x, axes);
  const size_t count = axes.count();
  Numbers pads(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t begin = axes.Span(i) - 1 - axes.begins[i];
    const int64_t end = axes.Span(i) - 1 + axes.more[i] + axes.begins[i];
    pads[i] = std::max<int64_t>(begin, 0);
    pads[count + i] = std::max<int64_t>(end, 0);
    const int64_t cut = pads[i] - begin + pads[count + i] - end;
    const int axis = static_cast<int>(2 + i);
    if (cut > 0) x = f.Slice(x, axis, pads[i] - begin, x->type.shape[axis] - cut);
  }
  ValueList operands = {x, Turned(f, w, *sizes, group)};
  if (context.input_count() > 2 && context.input(2)) operands.push_back(context.input(2));
  return f.Finish({f.Make(OpKind::kConv, operands,
                          {{"pads", pads},
                           {"strides", Numbers(count, 1)},
                           {"dilations", axes.dilations},
                           {"group", group}})});
}

}  // namespace fusec
