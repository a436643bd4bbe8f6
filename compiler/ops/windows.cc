#include "compiler/ops/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// The pads of auto_pad SAME_UPPER and SAME_LOWER: there are ceil(size / stride) windows, centered;
// if the padding is odd, the extra element is after (before) the data.
Result<std::vector<int64_t>> SamePads(const ImportContext& context, ShapeRef spatial,
                                      const Windows& windows, bool lower) {
  const size_t count = spatial.size();
  std::vector<int64_t> pads(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t stride = windows.strides[i];
    const std::optional<int64_t> size = spatial[i].AsConstant();
    if (stride < 1) return context.Fail("expected strides of at least 1");
    if (!size && stride != 1) {
      return context.Fail(fmt::format("auto_pad with stride {} needs a fixed size, found {}",
                                      stride, spatial[i].ToString()));
    }
    // With stride 1 the sum of the pads does not depend on the size.
    const int64_t last = size ? (*size + stride - 1) / stride * stride - stride : 0;
    const int64_t covered = size ? *size : 1;
    const int64_t sum = std::max<int64_t>(last + windows.Span(i) - covered, 0);
    pads[i] = lower ? sum - sum / 2 : sum / 2;
    pads[count + i] = sum - pads[i];
  }
  return pads;
}

// `x` with axis `axis` replaced by two: the elements of a window, and the windows along axis i of
// `windows`, of which there are `out`.
Value* Unfolded(Formula& f, Value* x, int axis, const Windows& windows, size_t i, const Expr& out) {
  const int64_t size = windows.kernel[i], stride = windows.strides[i];
  // The windows may end before the data does.
  x = f.Slice(x, axis, 0, (out - 1) * stride + windows.Span(i));
  Shape shape = x->type.shape;
  const Expr extent = shape[axis];
  shape.insert(shape.begin() + axis, size);
  shape[axis + 1] = out;
  if (size == 1) return f.Reshape(f.Slice(x, axis, 0, out, stride), shape);
  const bool is_apart = windows.dilations[i] == 1 && (stride == size || out.IsConstant(1));
  if (!is_apart || extent != out * size) {
    return f.Make(OpKind::kUnfold, {x},
                  {{"axis", int64_t{axis}},
                   {"size", size},
                   {"stride", stride},
                   {"dilation", windows.dilations[i]}});
  }
  std::swap(shape[axis], shape[axis + 1]);
  Value* apart = f.Reshape(x, shape);
  std::vector<int64_t> perm(shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[axis], perm[axis + 1]);
  return f.Transpose(apart, perm);
}

}  // namespace

Result<std::vector<int64_t>> PerAxis(const ImportContext& context, const std::string& name,
                                     size_t count, int64_t missing) {
  if (!context.Has(name)) return std::vector<int64_t>(count, missing);
  const std::vector<int64_t> given = context.Ints(name);
  if (given.size() == count) return given;
  return context.Fail(fmt::format("{} has {} values, expected {}", name, given.size(), count));
}

int64_t Windows::Places() const {
  int64_t places = 1;
  for (int64_t size : kernel) places *= size;
  return places;
}

Result<Windows> ImportWindows(const ImportContext& context, ShapeRef x,
                              const std::optional<std::vector<int64_t>>& kernel) {
  if (x.size() < 3) return context.Fail(fmt::format("x has rank {}, expected 3 or more", x.size()));
  const size_t count = x.size() - 2;
  Windows windows;
  if (kernel) {
    windows.kernel = *kernel;
  } else {
    FUSEC_ASSIGN(windows.kernel, PerAxis(context, "kernel_shape", count, 0));
    constexpr int64_t kMostPlaces = 1 << 24;  // products of sizes stay in range
    int64_t places = 1;
    for (int64_t size : windows.kernel) {
      if (size < 1 || size > kMostPlaces || places * size > kMostPlaces) {
        return context.Fail(
            fmt::format("kernel_shape has {}, expected 1 or more and at most {} "
                        "elements in all",
                        size, kMostPlaces));
      }
      places *= size;
    }
  }
  FUSEC_ASSIGN(windows.strides, PerAxis(context, "strides", count, 1));
  FUSEC_ASSIGN(windows.dilations, PerAxis(context, "dilations", count, 1));
  FUSEC_ASSIGN(windows.pads, PerAxis(context, "pads", 2 * count, 0));
  const std::string automatic = context.String("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    FUSEC_ASSIGN(windows.pads, SamePads(context, Shape(x.begin() + 2, x.end()), windows,
                                        automatic == "SAME_LOWER"));
  } else if (automatic != "NOTSET" && automatic != "VALID") {
    return context.Fail("auto_pad is " + automatic +
                        ", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return windows;
}

Value* PadSpatial(Formula& f, Value* x, ArrayRef<int64_t> pads, double fill) {
  if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) return x;
  const size_t rank = x->type.shape.size(), count = rank - 2;
  Exprs whole(2 * rank, Expr(0));
  for (size_t i = 0; i < count; ++i) {
    whole[2 + i] = pads[i];
    whole[rank + 2 + i] = pads[count + i];
  }
  return f.Make(OpKind::kPad, {x, f.Number(fill, x->type.dtype)},
                {{"pads", whole}, {"mode", std::string("constant")}});
}

Value* WindowElements(Formula& f, Value* x, const Windows& windows, ShapeRef out) {
  const Shape shape = x->type.shape;
  std::vector<int64_t> perm = {0, 1};
  for (size_t i = 0; i < out.size(); ++i) {
    x = Unfolded(f, x, static_cast<int>(2 + 2 * i), windows, i, out[i]);
    perm.push_back(static_cast<int64_t>(2 + 2 * i));
  }
  for (size_t i = 0; i < out.size(); ++i) perm.push_back(static_cast<int64_t>(3 + 2 * i));
  return f.Reshape(f.Transpose(x, perm), {shape[0], shape[1], windows.Places(), Product(out)});
}

}  // namespace fusec
