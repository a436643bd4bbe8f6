#include "compiler/plan/matmul/weight_panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/region/product.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kPanelRows = 64, kPanelBytes = 128, kVectorBytes = 16;

int64_t PartsOf(WeightLayout layout) { return layout == WeightLayout::kSplitTf32Panels ? 2 : 1; }

// As in tensor_core.cuh: the nearest float of 11 bits, NaN for infinities and numbers over 2^114.
float RoundTo11Bits(float x) { return std::fmaf(x, -8192.0f, x * 8193.0f); }

// Rounds the number at `place` and, if there is a place for it, keeps what that took from it.
void Round(std::byte* place, std::byte* rest) {
  float x;
  std::memcpy(&x, place, sizeof x);
  const float high = RoundTo11Bits(x), low = RoundTo11Bits(x - high);
  std::memcpy(place, &high, sizeof high);
  if (rest != nullptr) std::memcpy(rest, &low, sizeof low);
}

// visit(place of 16 bytes or less in the matrices [.., n, k], their place in panels, how many
// bytes).
template <class Visit>
void ForEachVector(const std::vector<int64_t>& dims, Dtype dtype, int64_t parts,
                   const Visit& visit) {
  const int64_t rows = dims[dims.size() - 2], row_bytes = dims.back() * DtypeBytes(dtype);
  int64_t all_rows = 1;
  for (size_t axis = 0; axis + 1 < dims.size(); ++axis) all_rows *= dims[axis];
  const int64_t across = CeilDiv(row_bytes, kPanelBytes);  // panels of a row
  const int64_t down = CeilDiv(rows, kPanelRows);
  for (int64_t i = 0; i < all_rows; ++i) {
    const int64_t matrix = i / rows, row = i % rows, in_panel = row % kPanelRows;
    const int64_t first = (matrix * down + row / kPanelRows) * across * parts;
    for (int64_t offset = 0; offset < row_bytes; offset += kVectorBytes) {
      const int64_t panel = first + offset / kPanelBytes * parts;
      const int64_t vector = offset % kPanelBytes / kVectorBytes ^ in_panel % 8;
      visit(i * row_bytes + offset,
            (panel * kPanelRows + in_panel) * kPanelBytes + vector * kVectorBytes,
            std::min(kVectorBytes, row_bytes - offset));
    }
  }
}

}  // namespace

const char* LayoutSuffix(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kPlain:
      return "";
    case WeightLayout::kTf32:
      return ".tf32";
    case WeightLayout::kPanels:
      return ".panels";
    case WeightLayout::kTf32Panels:
      return ".tf32_panels";
    case WeightLayout::kSplitTf32Panels:
      return ".split_tf32_panels";
  }
  return "";
}

WeightLayout PanelLayout(Dtype dtype, const std::string& precision) {
  switch (ArithmeticOf(dtype, precision)) {
    case Arithmetic::kSplitTf32:
      return WeightLayout::kSplitTf32Panels;
    case Arithmetic::kTf32:
      return WeightLayout::kTf32Panels;
    case Arithmetic::kHalf:
      break;
  }
  return WeightLayout::kPanels;
}

int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout) {
  const int64_t elements = kPanelBytes / DtypeBytes(dtype);
  return CeilDiv(k, elements) * elements * PartsOf(layout);
}

int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout) {
  return CeilDiv(n, kPanelRows) * kPanelRows * PanelDepth(k, dtype, layout);
}

TensorData MakePanels(const TensorData& weights, WeightLayout layout) {
  const std::vector<int64_t>& dims = weights.dims();
  FUSEC_CHECK(dims.size() >= 2 && weights.element_count() > 0, "panels are of matrices");
  const Dtype dtype = weights.dtype();
  const int64_t rows = dims[dims.size() - 2], k = dims.back(), parts = PartsOf(layout);
  const int64_t matrices = weights.element_count() / (rows * k);
  TensorData made(dtype, {matrices * PanelElements(rows, k, dtype, layout)});
  ForEachVector(dims, dtype, parts, [&](int64_t plain, int64_t in_panels, int64_t bytes) {
    std::byte* const to = made.mutable_bytes() + in_panels;
    std::memcpy(to, weights.bytes() + plain, static_cast<size_t>(bytes));
    if (layout == WeightLayout::kPanels) return;
    for (std::byte* at = to; at < to + bytes; at += sizeof(float))
      Round(at, parts == 2 ? at + kPanelRows * kPanelBytes : nullptr);
  });
  return made;
}

TensorData InLayout(const TensorData& weights, WeightLayout layout) {
  FUSEC_CHECK(layout != WeightLayout::kPlain, "plain weights need not be made");
  if (layout != WeightLayout::kTf32) return MakePanels(weights, layout);
  TensorData made(weights.dtype(), weights.dims());  // a copy of `weights` would share its bytes
  for (int64_t i = 0; i < made.element_count(); ++i) {
    float x;
    std::memcpy(&x, weights.bytes() + i * int64_t{sizeof x}, sizeof x);
    const float rounded = RoundTo11Bits(x);
    std::memcpy(made.mutable_bytes() + i * int64_t{sizeof x},
                std::isfinite(rounded) ? &rounded : &x, sizeof x);
  }
  return made;
}

std::optional<TensorData> FromLayout(Dtype dtype, const std::vector<int64_t>& dims,
                                     std::span<const std::byte> stored, WeightLayout layout) {
  TensorData made(dtype, dims);
  if (dims.size() < 2 || made.element_count() == 0) return std::nullopt;
  const int64_t rows = dims[dims.size() - 2], k = dims.back();
  const bool has_panels = layout != WeightLayout::kPlain && layout != WeightLayout::kTf32;
  const int64_t elements =
      has_panels ? made.element_count() / (rows * k) * PanelElements(rows, k, dtype, layout)
                 : made.element_count();
  if (static_cast<int64_t>(stored.size()) != elements * DtypeBytes(dtype)) return std::nullopt;
  if (!has_panels) {
    std::memcpy(made.mutable_bytes(), stored.data(), stored.size());
    return made;
  }
  const int64_t parts = PartsOf(layout);
  ForEachVector(dims, dtype, parts, [&](int64_t plain, int64_t in_panels, int64_t bytes) {
    std::byte* const to = made.mutable_bytes() + plain;
    const std::byte* const from = stored.data() + in_panels;
    std::memcpy(to, from, static_cast<size_t>(bytes));
    for (int64_t at = 0; parts == 2 && at < bytes; at += int64_t{sizeof(float)}) {
      float high, low;
      std::memcpy(&high, from + at, sizeof high);
      std::memcpy(&low, from + at + kPanelRows * kPanelBytes, sizeof low);
      high += low;
      std::memcpy(to + at, &high, sizeof high);
    }
  });
  return made;
}

}  // namespace fusec
