#include "compiler/plan/weight_panels.h"

#include <cmath>
#include <cstring>

#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kPanelRows = 64, kPanelBytes = 128, kVectorBytes = 16;

int64_t PartsOf(WeightLayout layout) { return layout == WeightLayout::kSplitTf32Panels ? 2 : 1; }

// As in tensor_core.cuh: the nearest float of 11 bits, NaN for infinities and numbers over 2^114.
float RoundTo11Bits(float x) { return std::fmaf(x, -8192.0f, x * 8193.0f); }

// Part `part` of a number: itself, rounded where it is to be, or what that took from it.
float PartOf(float x, int64_t part) {
  const float high = RoundTo11Bits(x);
  return part == 0 ? high : RoundTo11Bits(x - high);
}

}  // namespace

int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout) {
  const int64_t elements = kPanelBytes / DtypeBytes(dtype);
  return (k + elements - 1) / elements * elements * PartsOf(layout);
}

int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout) {
  return (n + kPanelRows - 1) / kPanelRows * kPanelRows * PanelDepth(k, dtype, layout);
}

TensorData MakePanels(const TensorData& weights, WeightLayout layout) {
  const std::vector<int64_t>& dims = weights.dims();
  FUSEC_CHECK(layout != WeightLayout::kPlain && dims.size() >= 2 && weights.element_count() > 0,
              "panels are of matrices");
  const int64_t element = DtypeBytes(weights.dtype()), parts = PartsOf(layout);
  const int64_t rows = dims[dims.size() - 2], row_bytes = dims.back() * element;
  const int64_t matrices = weights.element_count() / (rows * dims.back());
  TensorData made(weights.dtype(),
                  {matrices * PanelElements(rows, dims.back(), weights.dtype(), layout)});
  const int64_t across = (row_bytes + kPanelBytes - 1) / kPanelBytes;  // panels of a row
  const int64_t down = (rows + kPanelRows - 1) / kPanelRows;
  const bool rounds = layout != WeightLayout::kPanels;
  const std::byte* from = weights.bytes();
  for (int64_t i = 0; i < matrices * rows; ++i) {
    const int64_t matrix = i / rows, row = i % rows, in_panel = row % kPanelRows;
    const int64_t first = (matrix * down + row / kPanelRows) * across * parts;
    for (int64_t offset = 0; offset < row_bytes; offset += element, from += element) {
      const int64_t in_row = offset % kPanelBytes;
      const int64_t vector = in_row / kVectorBytes ^ in_panel % 8;
      std::byte* to =
          made.mutable_bytes() +
          ((first + offset / kPanelBytes * parts) * kPanelRows + in_panel) * kPanelBytes +
          vector * kVectorBytes + in_row % kVectorBytes;
      if (!rounds) {
        std::memcpy(to, from, static_cast<size_t>(element));
        continue;
      }
      float x;
      std::memcpy(&x, from, sizeof x);
      for (int64_t part = 0; part < parts; ++part) {
        const float value = PartOf(x, part);
        std::memcpy(to + part * kPanelRows * kPanelBytes, &value, sizeof value);
      }
    }
  }
  return made;
}

}  // namespace fusec
