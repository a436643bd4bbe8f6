#include "compiler/plan/matmul/weight_panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/region/product.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int64_t kPanelRows = 64, kPanelBytes = 128, kVectorBytes = 16;

// As in tensor_core.cuh: the nearest float of 11 bits, NaN for infinities and numbers over 2^114.
float RoundTo11Bits(float x) { return std::fmaf(x, -8192.0f, x * 8193.0f); }

// visit(place of 16 bytes or less in the matrices [.., n, k], their place in panels, how many
// bytes).
template <class Visit>
void ForEachVector(const std::vector<int64_t>& dims, Dtype dtype, const Visit& visit) {
  const int64_t rows = dims[dims.size() - 2], row_bytes = dims.back() * DtypeBytes(dtype);
  int64_t all_rows = 1;
  for (size_t axis = 0; axis + 1 < dims.size(); ++axis) all_rows *= dims[axis];
  const int64_t across = CeilDiv(row_bytes, kPanelBytes);  // panels of a row
  const int64_t down = CeilDiv(rows, kPanelRows);
  for (int64_t i = 0; i < all_rows; ++i) {
    const int64_t matrix = i / rows, row = i % rows, in_panel = row % kPanelRows;
    const int64_t first = (matrix * down + row / kPanelRows) * across;
    for (int64_t offset = 0; offset < row_bytes; offset += kVectorBytes) {
      const int64_t panel = first + offset / kPanelBytes;
      const int64_t vector = offset % kPanelBytes / kVectorBytes ^ in_panel % 8;
      visit(i * row_bytes + offset,
            (panel * kPanelRows + in_panel) * kPanelBytes + vector * kVectorBytes,
            std::min(kVectorBytes, row_bytes - offset));
    }
  }
}

// Where the halves of a row of split floats lie (split_half.cuh).
class SplitRow {
 public:
  // Row number `row` of all rows of matrices [.., n, k].
  SplitRow(int64_t row, int64_t n, int64_t k) : row_(row % n % kPanelRows) {
    const int64_t chunks = CeilDiv(k, kChunk),
                  group = row / n * CeilDiv(n, kPanelRows) + row % n / kPanelRows;
    panels_ = group * kPanelRows * (chunks * kChunkBytes + int64_t{sizeof(float)});
    unit_ = panels_ + kPanelRows * chunks * kChunkBytes + row_ * int64_t{sizeof(float)};
  }

  int64_t unit() const { return unit_; }
  int64_t high(int64_t k) const {
    constexpr int64_t kTogether = 16;
    const int64_t number = k % kTogether;
    const int64_t half =
        k % kChunk / kTogether * kTogether + number / 8 * 8 + number % 4 * 2 + number % 8 / 4;
    const int64_t offset = half * kHalfBytes;
    return panels_ + k / kChunk * kPanelRows * kChunkBytes + row_ * kPanelBytes +
           (offset / kVectorBytes ^ row_ % 8) * kVectorBytes + offset % kVectorBytes;
  }
  int64_t low(int64_t k) const { return high(k) + kPanelRows * kPanelBytes; }

 private:
  static constexpr int64_t kHalfBytes = 2, kChunk = kPanelBytes / kHalfBytes;  // numbers
  static constexpr int64_t kChunkBytes = 2 * kPanelBytes;                      // of a row
  int64_t row_, panels_, unit_;
};

constexpr double kLowUnit = 1.0 / 2048;

template <class T>
T Read(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}
template <class T>
void Write(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

// As UnitOfHalves (split_half.cuh).
float UnitOf(const float* row, int64_t k) {
  float greatest = 0;
  for (int64_t i = 0; i < k; ++i) greatest = std::max(greatest, std::abs(row[i]));
  constexpr int kUnitsBelow = 14, kLeast = -126;
  if (!std::isfinite(greatest)) return std::ldexp(1.0f, 128 - kUnitsBelow);
  const int exponent = greatest == 0 ? kLeast : std::ilogb(greatest) - kUnitsBelow;
  return std::ldexp(1.0f, std::max(exponent, kLeast));
}

TensorData MakeSplitPanels(const TensorData& weights) {
  const std::vector<int64_t>& dims = weights.dims();
  const int64_t n = dims[dims.size() - 2], k = dims.back(), rows = weights.element_count() / k;
  TensorData made(Dtype::kF32,
                  {rows / n * PanelElements(n, k, Dtype::kF32, WeightLayout::kSplitHalfPanels)});
  std::byte* const to = made.mutable_bytes();
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = reinterpret_cast<const float*>(weights.bytes()) + row * k;
    const SplitRow places(row, n, k);
    const float unit = UnitOf(from, k);
    Write(to + places.unit(), unit);
    for (int64_t i = 0; i < k; ++i) {
      const double x = static_cast<double>(from[i]) / unit;
      const uint16_t high = DoubleToHalf(x);
      Write(to + places.high(i), high);
      Write(to + places.low(i), DoubleToHalf((x - HalfToDouble(high)) / kLowUnit));
    }
  }
  return made;
}

void ReadSplitPanels(const std::byte* stored, TensorData& made) {
  const int64_t n = made.dims()[made.dims().size() - 2], k = made.dims().back();
  for (int64_t i = 0; i < made.element_count(); ++i) {
    const SplitRow places(i / k, n, k);
    const double high = HalfToDouble(Read<uint16_t>(stored + places.high(i % k)));
    const double low = HalfToDouble(Read<uint16_t>(stored + places.low(i % k)));
    made.SetDouble(i, (high + low * kLowUnit) * Read<float>(stored + places.unit()));
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
    case WeightLayout::kSplitHalfPanels:
      return ".split_half_panels";
  }
  return "";
}

WeightLayout PanelLayout(Dtype dtype, const std::string& precision) {
  switch (ArithmeticOf(dtype, precision)) {
    case Arithmetic::kSplit:
      return WeightLayout::kSplitHalfPanels;
    case Arithmetic::kTf32:
      return WeightLayout::kTf32Panels;
    case Arithmetic::kHalf:
      break;
  }
  return WeightLayout::kPanels;
}

int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout) {
  const bool is_split = layout == WeightLayout::kSplitHalfPanels;
  const int64_t elements = kPanelBytes / DtypeBytes(dtype) * (is_split ? 2 : 1);
  return CeilDiv(k, elements) * elements + (is_split ? 1 : 0);  // its unit
}

int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout) {
  return CeilDiv(n, kPanelRows) * kPanelRows * PanelDepth(k, dtype, layout);
}

TensorData MakePanels(const TensorData& weights, WeightLayout layout) {
  const std::vector<int64_t>& dims = weights.dims();
  FUSEC_CHECK(dims.size() >= 2 && weights.element_count() > 0, "panels are of matrices");
  if (layout == WeightLayout::kSplitHalfPanels) return MakeSplitPanels(weights);
  const Dtype dtype = weights.dtype();
  const int64_t rows = dims[dims.size() - 2], k = dims.back();
  const int64_t matrices = weights.element_count() / (rows * k);
  TensorData made(dtype, {matrices * PanelElements(rows, k, dtype, layout)});
  ForEachVector(dims, dtype, [&](int64_t plain, int64_t in_panels, int64_t bytes) {
    std::byte* const to = made.mutable_bytes() + in_panels;
    std::memcpy(to, weights.bytes() + plain, static_cast<size_t>(bytes));
    if (layout == WeightLayout::kPanels) return;
    for (std::byte* at = to; at < to + bytes; at += sizeof(float))
      Write(at, RoundTo11Bits(Read<float>(at)));
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
  if (layout == WeightLayout::kSplitHalfPanels) {
    ReadSplitPanels(stored.data(), made);
    return made;
  }
  ForEachVector(dims, dtype, [&](int64_t plain, int64_t in_panels, int64_t bytes) {
    std::memcpy(made.mutable_bytes() + plain, stored.data() + in_panels,
                static_cast<size_t>(bytes));
  });
  return made;
}

}  // namespace fusec
