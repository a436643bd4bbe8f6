#include "compiler/plan/matmul/weight_panels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/support/check.h"
#include "compiler/support/parallel.h"

namespace fusec {

namespace {

constexpr int64_t kPanelRows = 64, kPanelBytes = 128, kVectorBytes = 16;

// As in tensor_core.cuh: the nearest float with 11 significant bits; NaN for infinities and for
// magnitudes above 2^114.
float RoundTo11Bits(float x) { return std::fmaf(x, -8192.0f, x * 8193.0f); }

// Calls visit(plain, in_panels, bytes) for each vector of up to 16 bytes: its byte offset in the
// matrices [.., n, k], its byte offset in panels, and its size. Several threads call it.
template <class Visit>
void ForEachVector(const std::vector<int64_t>& dims, Dtype dtype, const Visit& visit) {
  const int64_t rows = dims[dims.size() - 2], row_bytes = dims.back() * DtypeBytes(dtype);
  int64_t all_rows = 1;
  for (size_t axis = 0; axis + 1 < dims.size(); ++axis) all_rows *= dims[axis];
  const int64_t across = CeilDiv(row_bytes, kPanelBytes);  // panels per row
  const int64_t down = CeilDiv(rows, kPanelRows);
  ForRanges(all_rows, all_rows * dims.back(), [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
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
  });
}

constexpr int64_t kUnitBytes = sizeof(float);

bool HasUnits(WeightLayout layout) {
  return layout == WeightLayout::kSplitHalfPanels || layout == WeightLayout::kFloat8Panels;
}

// The layout of numbers with units in panels.
struct UnitPanels {
  int64_t number_bytes;  // size of one part of a number
  int64_t parts;         // parts of a number, each in a panel of its own
  int bits;              // the greatest number of a row has 2^bits to 2^(bits + 1) units

  int64_t chunk() const { return kPanelBytes / number_bytes; }  // numbers
  // The bytes of the panels of 64 rows.
  int64_t RowsBytes(int64_t k) const {
    return CeilDiv(k, chunk()) * parts * kPanelRows * kPanelBytes;
  }
};
UnitPanels UnitPanelsOf(WeightLayout layout) {
  if (layout == WeightLayout::kSplitHalfPanels) return {2, 2, 14};  // split_half.cuh
  return {1, 1, 7};                                                 // like Float8Factor
}

// The position of a number among 16 halves (PlaceOfHalf in split_half.cuh).
int64_t PlaceOf(int64_t number, WeightLayout layout) {
  return layout == WeightLayout::kSplitHalfPanels ? number / 8 * 8 + number % 4 * 2 + number % 8 / 4
                                                  : number;
}

// The byte offsets of a row of such numbers.
class UnitRow {
 public:
  // `row` counts the rows of all matrices [.., n, k].
  UnitRow(int64_t row, int64_t n, int64_t k, WeightLayout layout)
      : row_(row % n % kPanelRows), layout_(layout), panels_(UnitPanelsOf(layout)) {
    const int64_t group = row / n * CeilDiv(n, kPanelRows) + row % n / kPanelRows;
    const int64_t bytes = panels_.RowsBytes(k);
    first_ = group * (bytes + kPanelRows * kUnitBytes);
    unit_ = first_ + bytes + row_ * kUnitBytes;
  }

  int64_t unit() const { return unit_; }
  // The offset of part `part` of number `k`.
  int64_t At(int64_t k, int64_t part = 0) const {
    constexpr int64_t kTogether = 16;
    const int64_t chunk = panels_.chunk();
    const int64_t place = k % chunk / kTogether * kTogether + PlaceOf(k % kTogether, layout_);
    const int64_t offset = place * panels_.number_bytes;
    return first_ + (k / chunk * panels_.parts + part) * kPanelRows * kPanelBytes +
           row_ * kPanelBytes + (offset / kVectorBytes ^ row_ % 8) * kVectorBytes +
           offset % kVectorBytes;
  }

 private:
  int64_t row_;
  WeightLayout layout_;
  UnitPanels panels_;
  int64_t first_, unit_;
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

// Like UnitOfHalves (split_half.cuh). Rows of kFloat8Panels are either finite or entirely NaN.
float UnitOf(double greatest, WeightLayout layout) {
  constexpr int kLeast = -126;
  const int bits = UnitPanelsOf(layout).bits;
  if (!std::isfinite(greatest)) return std::ldexp(1.0f, 128 - bits);
  const int exponent = greatest == 0 ? kLeast : std::ilogb(greatest) - bits;
  return std::ldexp(1.0f, std::max(exponent, kLeast));
}

struct Half {
  uint16_t bits;
  float value;
};

// The half nearest to a float that is not beyond the halves, ties to even.
Half NearestHalf(float x) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7f800000;
  constexpr uint32_t kFirstNormal = 0x38800000;  // 2^-14
  constexpr int kDroppedBits = 13;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & ~kSign;
  uint32_t value, half;
  if (magnitude >= kInfinity) {
    value = magnitude;
    half = magnitude == kInfinity ? 0x7c00 : 0x7e00;
  } else if (magnitude >= kFirstNormal) {
    const uint32_t rounding = (1u << (kDroppedBits - 1)) - 1 + (magnitude >> kDroppedBits & 1);
    value = (magnitude + rounding) >> kDroppedBits << kDroppedBits;
    half = (value - kFirstNormal + 0x00800000) >> kDroppedBits;
  } else {  // floats from 0.5 on are 2^-24 apart, as these halves are
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    value = std::bit_cast<uint32_t>(sum - 0.5f);
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  }
  return {static_cast<uint16_t>(half | (bits & kSign) >> 16),
          std::bit_cast<float>(value | (bits & kSign))};
}

template <class T>
double Greatest(const std::vector<T>& numbers) {
  T greatest = 0;
  for (const T x : numbers) greatest = std::max(greatest, std::abs(x));
  return greatest;
}

// A row of floats, each as two halves. Eight numbers share a vector of 16 bytes. Quotients,
// differences and products are exact.
void WriteSplitRow(const std::vector<float>& row, const UnitRow& places, std::byte* to) {
  constexpr size_t kTogether = kVectorBytes / sizeof(uint16_t);
  const float unit = UnitOf(Greatest(row), WeightLayout::kSplitHalfPanels);
  Write(to + places.unit(), unit);
  for (size_t begin = 0; begin < row.size(); begin += kTogether) {
    uint16_t high[kTogether] = {}, low[kTogether] = {};
    for (size_t i = 0; i < std::min(kTogether, row.size() - begin); ++i) {
      const int64_t place = PlaceOf(static_cast<int64_t>(i), WeightLayout::kSplitHalfPanels);
      const float x = row[begin + i] / unit;
      const Half first = NearestHalf(x);
      high[place] = first.bits;
      low[place] = NearestHalf((x - first.value) * static_cast<float>(1 / kLowUnit)).bits;
    }
    std::memcpy(to + places.At(static_cast<int64_t>(begin)), high, sizeof high);
    std::memcpy(to + places.At(static_cast<int64_t>(begin), 1), low, sizeof low);
  }
}

void WriteFloat8Row(const std::vector<double>& row, const UnitRow& places, std::byte* to) {
  const float unit = UnitOf(Greatest(row), WeightLayout::kFloat8Panels);
  Write(to + places.unit(), unit);
  for (size_t i = 0; i < row.size(); ++i)
    Write(to + places.At(static_cast<int64_t>(i)), DoubleToE4M3(row[i] / unit));
}

TensorData MakeUnitPanels(const TensorData& weights, WeightLayout layout) {
  const std::vector<int64_t>& dims = weights.dims();
  const Dtype dtype = weights.dtype();
  const bool is_split = layout == WeightLayout::kSplitHalfPanels;
  FUSEC_CHECK(!is_split || dtype == Dtype::kF32, "floats are split into two halves");
  const int64_t n = dims[dims.size() - 2], k = dims.back(), rows = weights.element_count() / k;
  TensorData made(dtype, {rows / n * PanelElements(n, k, dtype, layout)});
  std::byte* const to = made.mutable_bytes();
  ForRanges(rows, weights.element_count(), [&](int64_t first, int64_t last, int64_t) {
    std::vector<float> floats(is_split ? k : 0);
    std::vector<double> numbers(is_split ? 0 : k);
    for (int64_t row = first; row < last; ++row) {
      const UnitRow places(row, n, k, layout);
      if (is_split) {
        std::memcpy(floats.data(), weights.bytes() + row * k * int64_t{sizeof(float)},
                    floats.size() * sizeof(float));
        WriteSplitRow(floats, places, to);
      } else {
        for (int64_t i = 0; i < k; ++i) numbers[i] = weights.GetDouble(row * k + i);
        WriteFloat8Row(numbers, places, to);
      }
    }
  });
  return made;
}

void ReadUnitPanels(const std::byte* stored, WeightLayout layout, TensorData& made) {
  const int64_t n = made.dims()[made.dims().size() - 2], k = made.dims().back();
  for (int64_t i = 0; i < made.element_count(); ++i) {
    const UnitRow places(i / k, n, k, layout);
    const double unit = Read<float>(stored + places.unit());
    if (layout == WeightLayout::kFloat8Panels) {
      const double x = E4M3ToDouble(Read<uint8_t>(stored + places.At(i % k)));
      made.SetDouble(i, x * unit);
      continue;
    }
    const double high = HalfToDouble(Read<uint16_t>(stored + places.At(i % k)));
    const double low = HalfToDouble(Read<uint16_t>(stored + places.At(i % k, 1)));
    made.SetDouble(i, (high + low * kLowUnit) * unit);
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
    case WeightLayout::kFloat8Panels:
      return ".float8_panels";
  }
  return "";
}

WeightLayout PanelLayout(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kSplit:
      return WeightLayout::kSplitHalfPanels;
    case Arithmetic::kTf32:
      return WeightLayout::kTf32Panels;
    case Arithmetic::kFloat8:
    case Arithmetic::kShortFloat8:
      return WeightLayout::kFloat8Panels;
    case Arithmetic::kHalf:
      break;
  }
  return WeightLayout::kPanels;
}

int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout) {
  if (HasUnits(layout)) {
    const int64_t bytes = UnitPanelsOf(layout).RowsBytes(k) / kPanelRows + kUnitBytes;
    return bytes / DtypeBytes(dtype);
  }
  const int64_t elements = kPanelBytes / DtypeBytes(dtype);
  return CeilDiv(k, elements) * elements;
}

int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout) {
  return CeilDiv(n, kPanelRows) * kPanelRows * PanelDepth(k, dtype, layout);
}

TensorData MakePanels(const TensorData& weights, WeightLayout layout) {
  const std::vector<int64_t>& dims = weights.dims();
  FUSEC_CHECK(dims.size() >= 2 && weights.element_count() > 0, "panels are of matrices");
  if (HasUnits(layout)) return MakeUnitPanels(weights, layout);
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
  if (HasUnits(layout)) {
    ReadUnitPanels(stored.data(), layout, made);
    return made;
  }
  ForEachVector(dims, dtype, [&](int64_t plain, int64_t in_panels, int64_t bytes) {
    std::memcpy(made.mutable_bytes() + plain, stored.data() + in_panels,
                static_cast<size_t>(bytes));
  });
  return made;
}

}  // namespace fusec
