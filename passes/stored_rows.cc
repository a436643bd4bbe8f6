#include "passes/stored_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/check.h"

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

// Reads one row of a table at a time, as doubles.
class RowReader {
 public:
  RowReader(const TensorData& table, RowStorage storage)
      : table_(table), storage_(storage), row_(static_cast<size_t>(table.dims()[1])) {}

  Result<const std::vector<double>*> Read(int64_t number) {
    const auto columns = static_cast<int64_t>(row_.size());
    for (int64_t c = 0; c < columns; ++c) {
      row_[c] = table_.GetDouble(number * columns + c);
      if (!std::isfinite(row_[c])) return Refused(number, row_[c]);
    }
    if (((number + 1) * columns) / kReleaseElements != (number * columns) / kReleaseElements)
      table_.ReleasePages();
    return &row_;
  }

  tl::unexpected<Error> Refused(int64_t number, double value) const {
    return ModelError(fmt::format("row {} holds {}, which {} has no code for", number, value,
                                  RowStorageName(storage_)));
  }

 private:
  static constexpr int64_t kReleaseElements = 8 << 20;

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
  RowReader reader(table, storage);
  for (int64_t r = 0; r < rows; ++r) {
    FUSEC_ASSIGN(const auto* row, reader.Read(r));
    const auto [least, most] = std::minmax_element(row->begin(), row->end());
    const auto bias = static_cast<float>(*least);
    if (!IsF32(bias)) return reader.Refused(r, *least);
    const float scale = RoundedUp((*most - bias) / greatest);
    if (!IsF32(greatest * scale)) return reader.Refused(r, *most);
    for (int64_t c = 0; c < columns && scale > 0; ++c) {
      const double code = std::clamp(std::nearbyint(((*row)[c] - bias) / scale), 0.0, greatest);
      const int64_t bit = c * bits;
      bytes[r * row_bytes + bit / 8] |= static_cast<uint8_t>(static_cast<int>(code) << bit % 8);
    }
    stored.factors->SetDouble(2 * r, scale);
    stored.factors->SetDouble(2 * r + 1, bias);
  }
  return stored;
}

Result<StoredRows> StoreFp8(const TensorData& table) {
  const int64_t rows = table.dims()[0], columns = table.dims()[1];
  StoredRows stored{TensorData(Dtype::kU8, {rows, columns}), TensorData(Dtype::kF32, {rows, 1})};
  auto* bytes = reinterpret_cast<uint8_t*>(stored.rows.mutable_bytes());
  RowReader reader(table, RowStorage::kFp8);
  for (int64_t r = 0; r < rows; ++r) {
    FUSEC_ASSIGN(const auto* row, reader.Read(r));
    double magnitude = 0;
    for (const double x : *row) magnitude = std::max(magnitude, std::abs(x));
    const float scale = RoundedUp(magnitude / kGreatestE4M3);
    if (!IsF32(kGreatestE4M3 * scale)) return reader.Refused(r, magnitude);
    for (int64_t c = 0; c < columns && scale > 0; ++c)
      bytes[r * columns + c] = DoubleToE4M3((*row)[c] / scale);
    stored.factors->SetDouble(r, scale);
  }
  return stored;
}

// For f16 and bf16, which hold NaN and infinities as well: it is only an error if a finite number
// becomes infinite.
Result<StoredRows> StoreHalves(const TensorData& table, RowStorage storage) {
  const Dtype dtype = storage == RowStorage::kF16 ? Dtype::kF16 : Dtype::kBF16;
  StoredRows stored{TensorData(dtype, table.dims()), std::nullopt};
  for (int64_t i = 0; i < table.element_count(); ++i) {
    const double value = table.GetDouble(i);
    stored.rows.SetDouble(i, value);
    if (std::isfinite(value) && !std::isfinite(stored.rows.GetDouble(i)))
      return RowReader(table, storage).Refused(i / table.dims()[1], value);
    if (i % (8 << 20) == 0) table.ReleasePages();
  }
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
