#pragma once

#include <vector>

#include "compiler/import/import_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Sliding windows of convolutions and pools over the spatial axes (all but the first two) of a
// tensor [N, C, spatial...]. Window o begins at element o * stride - pad of its axis and covers
// every dilation-th element.
struct Windows {
  std::vector<int64_t> kernel;  // elements of a window, per spatial axis
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // before the data for all spatial axes, then after it

  // The number of elements of axis i from the first to the last element of a window.
  int64_t Span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  int64_t Places() const;  // the number of elements of a window
};

// A list attribute with one value per spatial axis (or per pad); `missing` for each of them if the
// attribute is absent.
Result<std::vector<int64_t>> PerAxis(const ImportContext& context, const std::string& name,
                                     size_t count, int64_t missing);

// Reads kernel_shape (unless `kernel` is given), strides, dilations, pads and auto_pad of an ONNX
// node over data of shape `x`.
Result<Windows> ImportWindows(const ImportContext& context, ShapeRef x,
                              const std::optional<std::vector<int64_t>>& kernel = std::nullopt);

// `x` padded with `fill`; `pads` are those before the data for all spatial axes, then those after
// it.
Value* PadSpatial(Formula& f, Value* x, ArrayRef<int64_t> pads, double fill);

// [N, C, K, positions]: for each of the K elements of a window, in row-major order, its values in
// all windows. `x` must already be padded; `out` is the number of windows per spatial axis.
Value* WindowElements(Formula& f, Value* x, const Windows& windows, ShapeRef out);

}  // namespace fusec
