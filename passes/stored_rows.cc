#include "passes/stored_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/parallel.h"

namespace fusec {

namespace {

constexpr double kGreatestE4M3 = 448;
constexpr const char* kNames[] = {"int8", "int4", "fp8", "f16", "bf16"};  // as RowStorage

// The smallest f32 that is not below `value`, so that quotients by it stay within their range.
float RoundedUp(double value) {
  const float nearest = static_cast<float>(value);
  return nearest < value ? std::nextafter(nearest, std::numeric_limits<float>::infinity())
                         : nearest;
}

bool IsF32(double value) { return std::isfinite(static_cast<float>(value)); }

constexpr int64_t kReleaseElements = 8 << 20;  // of a mapped table, before its pages are dropped

tl::unexpected<Error> Refused(int64_t row, double value, RowStorage storage) {
  return ModelError(fmt::format("row {} holds {}, which {} has no code for", row, value,
                                RowStorageName(storage)));
}

// Calls store(first, last) for consecutive ranges of rows in parallel. Returns the error of the
// first row that has one.
template <class Store>
Result<void> StoreRanges(const TensorData& table, const Store& store) {
  const int64_t rows = table.dims()[0], elements = table.element_count();
  std::vector<Result<void>> results(static_cast<size_t>(RangeCount(rows, elements)));
  ForRanges(rows, elements, [&](int64_t first, int64_t last, int64_t range) {
    results[range] = store(first, last);
  });
  for (Result<void>& result : results) FUSEC_TRY(std::move(result));
  return {};
}

// Reads rows of a table in ascending order, one at a time, as doubles.
class RowReader {
 public:
  RowReader(const TensorData& table, RowStorage storage)
      : table_(table), storage_(storage), row_(static_cast<size_t>(table.dims()[1])) {}

  Result<const std::vector<double>*> Read(int64_t number) {
    const auto columns = static_cast<int64_t>(row_.size());
    for (int64_t c = 0; c < columns; ++c) {
      row_[c] = table_.GetDouble(number * columns + c);
      if (!std::isfinite(row_[c])) return Refused(number, row_[c], storage_);
    }
    if (((number + 1) * columns) / kReleaseElements != (number * columns) / kReleaseElements)
      table_.ReleasePages();
    return &row_;
  }

 private:
  const TensorData& table_;
  const RowStorage storage_;
  std::vector<double> row_;
};

// For storages of integers with `bits` bits.
Result<StoredRows> StoreIntegers(const TensorData& table, RowStorage storage, int bits) {
  const int64_t rows = table.dims()[0], columns = table.dims()[1];
  const int64_t row_bytes = (columns * bits + 7) / 8;
  const double greatest = (1 << bits) - 1;
  StoredRows stored{TensorData(Dtype::kU8, {rows, row_bytes}), TensorData(Dtype::kF32, {rows, 2})};
  auto* bytes = reinterpret_cast<uint8_t*>(stored.rows.mutable_bytes());
  const auto store = [&](int64_t first, int64_t last) -> Result<void> {
    RowReader reader(table, storage);
    for (int64_t r = first; r < last; ++r) {
      FUSEC_ASSIGN(const auto* row, reader.Read(r));
      const auto [least, most] = std::minmax_element(row->begin(), row->end());
      const auto bias = static_cast<float>(*least);
      if (!IsF32(bias)) return Refused(r, *least, storage);
      const float scale = RoundedUp((*most - bias) / greatest);
      if (!IsF32(greatest * scale)) return Refused(r, *most, storage);
      for (int64_t c = 0; c < columns && scale > 0; ++c) {
        const double code = std::clamp(std::nearbyint(((*row)[c] - bias) / scale), 0.0, greatest);
        const int64_t bit = c * bits;
        bytes[r * row_bytes + bit / 8] |= static_cast<uint8_t>(static_cast<int>(code) << bit % 8);
      }
      stored.factors->SetDouble(2 * r, scale);
      stored.factors->SetDouble(2 * r + 1, bias);
    }
    return {};
  };
  FUSEC_TRY(StoreRanges(table, store));
  return stored;
}

Result<StoredRows> StoreFp8(const TensorData& table) {
  const int64_t rows = table.dims()[0], columns = table.dims()[1];
  StoredRows stored{TensorData(Dtype::kU8, {rows, columns}), TensorData(Dtype::kF32, {rows, 1})};
  auto* bytes = reinterpret_cast<uint8_t*>(stored.rows.mutable_bytes());
  const auto store = [&](int64_t first, int64_t last) -> Result<void> {
    RowReader reader(table, RowStorage::kFp8);
    for (int64_t r = first; r < last; ++r) {
      FUSEC_ASSIGN(const auto* row, reader.Read(r));
      double magnitude = 0;
      for (const double x : *row) magnitude = std::max(magnitude, std::abs(x));
      const float scale = RoundedUp(magnitude / kGreatestE4M3);
      if (!IsF32(kGreatestE4M3 * scale)) return Refused(r, magnitude, RowStorage::kFp8);
      for (int64_t c = 0; c < columns && scale > 0; ++c)
        bytes[r * columns + c] = DoubleToE4M3((*row)[c] / scale);
      stored.factors->SetDouble(r, scale);
    }
    return {};
  };
  FUSEC_TRY(StoreRanges(table, store));
  return stored;
}

// For f16 and bf16, which hold NaN and infinities as well: it is only an error if a finite number
// becomes infinite.
Result<StoredRows> StoreHalves(const TensorData& table, RowStorage storage) {
  const Dtype dtype = storage == RowStorage::kF16 ? Dtype::kF16 : Dtype::kBF16;
  constexpr double kGreatestHalf = 65504;  // up to which neither makes an infinity
  const int64_t columns = table.dims()[1];
  StoredRows stored{TensorData(dtype, table.dims()), std::nullopt};
  const auto store = [&](int64_t first, int64_t last) -> Result<void> {
    for (int64_t i = first * columns; i < last * columns; ++i) {
      const double value = table.GetDouble(i);
      stored.rows.SetDouble(i, value);
      if (std::abs(value) > kGreatestHalf && std::isfinite(value) &&
          !std::isfinite(stored.rows.GetDouble(i)))
        return Refused(i / columns, value, storage);
      if (i % kReleaseElements == 0) table.ReleasePages();
    }
    return {};
  };
  FUSEC_TRY(StoreRanges(table, store));
  return stored;
}

}  // namespace

const char* RowStorageName(RowStorage storage) { return kNames[static_cast<int>(storage)]; }

const std::vector<std::string>& RowStorageNames() {
  static const auto& names = *new std::vector<std::string>(std::begin(kNames), std::end(kNames));
  return names;
}

std::optional<RowStorage> ParseRowStorage(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<RowStorage>(found - std::begin(kNames));
}

Result<StoredRows> StoreRows(const TensorData& table, RowStorage storage) {
  switch (storage) {
    case RowStorage::kInt8:
      return StoreIntegers(table, storage, 8);
    case RowStorage::kInt4:
      return StoreIntegers(table, storage, 4);
    case RowStorage::kFp8:
      return StoreFp8(table);
    case RowStorage::kF16:
    case RowStorage::kBF16:
      return StoreHalves(table, storage);
  }
  FUSEC_CHECK(false, "a storage without a case");
}

}  // namespace fusec
