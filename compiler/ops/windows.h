#pragma once

#include <vector>

#include "compiler/import/import_context.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Windows that slide over the spatial axes (all but the first two) of a tensor [N, C, spatial...],
// as convolutions and pools have them. Window o starts at element o * stride - pad of its axis and
// meets every dilation-th element.
struct Windows {
  std::vector<int64_t> kernel;  // elements of a window, per spatial axis
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // the begins of all spatial axes, then the ends

  // How many elements of an axis one window spans.
  int64_t Span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  int64_t Places() const;  // elements of a window, of all axes
};

// Reads kernel_shape (unless `kernel` is given), strides, dilations, pads and auto_pad of an ONNX
// node over data of shape `x`.
Result<Windows> ImportWindows(const ImportContext& context, ShapeRef x,
                              const std::optional<std::vector<int64_t>>& kernel = std::nullopt);

// `x` with `pads` (begins of all spatial axes, then ends) elements `fill` around it.
Value* PadSpatial(Formula& f, Value* x, ArrayRef<int64_t> pads, double fill);

// [N, C, K, positions]: for each of the K places of a window, in row-major order, the elements that
// the windows meet there. `x` is padded already; `out` has the number of windows per spatial axis.
Value* WindowElements(Formula& f, Value* x, const Windows& windows, ShapeRef out);

}  // namespace fusec
