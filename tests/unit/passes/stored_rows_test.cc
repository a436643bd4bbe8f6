#include "passes/stored_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/dtype.h"

namespace fusec {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows with the same numbers on every machine: a linear congruential generator, with a different magnitude for each row.
TensorData Table(int64_t rows, int64_t columns, Dtype dtype = Dtype::kF32) {
  TensorData table(dtype, {rows, columns});
  uint32_t state = static_cast<uint32_t>(rows * 131 + columns);
  for (int64_t i = 0; i < table.element_count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const double unit = static_cast<double>(state >> 8) / (1 << 23) - 1;
    table.SetDouble(i, std::ldexp(unit, static_cast<int>(i / columns % 5) * 4 - 8));
  }
  return table;
}

// Element (r, c) by the formulas of stored_rows.h.
double Dequantized(const StoredRows& stored, RowStorage storage, int64_t r, int64_t c) {
  const int64_t row_bytes = stored.rows.dims()[1];
  switch (storage) {
    case RowStorage::kInt8:
      return stored.rows.GetInt(r * row_bytes + c) * stored.factors->GetDouble(2 * r) +
             stored.factors->GetDouble(2 * r + 1);
    case RowStorage::kInt4: {
      const int64_t byte = stored.rows.GetInt(r * row_bytes + c / 2);
      return static_cast<double>(c % 2 == 0 ? byte & 15 : byte >> 4) * stored.factors->GetDouble(2 * r) +
             stored.factors->GetDouble(2 * r + 1);
    }
    case RowStorage::kFp8:
      return E4M3ToDouble(static_cast<uint8_t>(stored.rows.GetInt(r * row_bytes + c))) *
             stored.factors->GetDouble(r);
    default:
      return stored.rows.GetDouble(r * row_bytes + c);
  }
}

// The allowed error: half a step of the row; for floats half a unit in the last place.
double Bound(RowStorage storage, double least, double most, double x) {
  constexpr double kSlack = 1 + 1e-6;  // of a scale that was rounded up to f32
  const double magnitude = std::max(std::abs(least), std::abs(most));
  switch (storage) {
    case RowStorage::kInt8:
      return (most - least) / 255 / 2 * kSlack;
    case RowStorage::kInt4:
      return (most - least) / 15 / 2 * kSlack;
    case RowStorage::kFp8:
      return std::max(std::abs(x) / 16, magnitude / 448 * std::ldexp(1, -10)) * kSlack;
    case RowStorage::kF16:
      return std::max(std::ldexp(std::abs(x), -11), std::ldexp(1, -25));
    case RowStorage::kBF16:
      return std::ldexp(std::abs(x), -8);
  }
  return 0;
}

TEST(StoreRows, MovesElementsByHalfAStepAtMost) {
  for (const std::string& name : RowStorageNames()) {
    const RowStorage storage = *ParseRowStorage(name);
    for (const int64_t columns : {1, 2, 3, 7, 8, 64, 127, 128}) {
      const TensorData table = Table(11, columns);
      const auto stored = StoreRows(table, storage);
      ASSERT_TRUE(stored) << stored.error().message;
      for (int64_t r = 0; r < 11; ++r) {
        double least = kInfinity, most = -kInfinity;
        for (int64_t c = 0; c < columns; ++c) {
          least = std::min(least, table.GetDouble(r * columns + c));
          most = std::max(most, table.GetDouble(r * columns + c));
        }
        for (int64_t c = 0; c < columns; ++c) {
          const double x = table.GetDouble(r * columns + c);
          EXPECT_LE(std::abs(Dequantized(*stored, storage, r, c) - x), Bound(storage, least, most, x))
              << name << " of " << columns << " columns at " << r << ", " << c;
        }
      }
    }
  }
}

TEST(StoreRows, HasTheShapesThatItPromises) {
  const TensorData table = Table(3, 7);
  const auto int4 = StoreRows(table, RowStorage::kInt4);
  EXPECT_EQ(int4->rows.dims(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(int4->factors->dims(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(int4->rows.GetInt(3) >> 4, 0) << "behind the last column there is nothing";
  EXPECT_EQ(StoreRows(table, RowStorage::kInt8)->rows.byte_count(), 21u);
  EXPECT_EQ(StoreRows(table, RowStorage::kFp8)->factors->dims(), (std::vector<int64_t>{3, 1}));
  EXPECT_FALSE(StoreRows(table, RowStorage::kF16)->factors);
  EXPECT_EQ(StoreRows(Table(3, 7, Dtype::kF64), RowStorage::kBF16)->rows.dtype(), Dtype::kBF16);
}

// Enough elements for several threads, whose ranges of rows do not begin at equal places.
TEST(StoreRows, StoresTheRowsOfALargeTableAsThoseOfASmallOne) {
  constexpr int64_t kRows = 40'001, kColumns = 33;
  const TensorData table = Table(kRows, kColumns);
  for (const std::string& name : RowStorageNames()) {
    const RowStorage storage = *ParseRowStorage(name);
    const auto all = StoreRows(table, storage);
    ASSERT_TRUE(all) << all.error().message;
    for (int64_t first = 0; first < kRows; first += 4'000) {
      TensorData one(table.dtype(), {1, kColumns});
      for (int64_t c = 0; c < kColumns; ++c) one.SetDouble(c, table.GetDouble(first * kColumns + c));
      const auto row = StoreRows(one, storage);
      ASSERT_TRUE(row) << row.error().message;
      for (int64_t c = 0; c < kColumns; ++c)
        EXPECT_EQ(Dequantized(*row, storage, 0, c), Dequantized(*all, storage, first, c)) << name << " row " << first << " column " << c;
    }
  }
}

TEST(StoreRows, NamesTheFirstOfSeveralBadRowsOfALargeTable) {
  TensorData table = Table(40'001, 33);
  for (const int64_t row : {40'000, 30'000, 12'345, 20'000}) table.SetDouble(row * 33 + 5, std::numeric_limits<double>::quiet_NaN());
  for (const RowStorage storage : {RowStorage::kInt8, RowStorage::kInt4, RowStorage::kFp8}) {
    const auto stored = StoreRows(table, storage);
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().message, std::string("row 12345 holds nan, which ") + RowStorageName(storage) + " has no code for");
  }
}

TEST(StoreRows, KeepsConstantRows) {
  for (const float x : {0.0f, -0.0f, 0.1f, -3e38f, 1e-45f}) {
    const TensorData table = TensorData::From<float>(Dtype::kF32, {1, 3}, {x, x, x});
    for (const RowStorage storage : {RowStorage::kInt8, RowStorage::kInt4}) {
      const auto stored = StoreRows(table, storage);
      ASSERT_TRUE(stored) << stored.error().message;
      for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(Dequantized(*stored, storage, 0, c), x);
    }
  }
}

// The scale of such a row is a subnormal of few bits, or the sum would overflow if it were not refused.
TEST(StoreRows, ExtremeRowsStayInTheirRange) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const TensorData small = TensorData::From<float>(Dtype::kF32, {1, 3}, {0, 100 * tiny, 300 * tiny});
  const auto stored = StoreRows(small, RowStorage::kInt8);
  ASSERT_TRUE(stored);
  for (int64_t c = 0; c < 3; ++c)
    EXPECT_LE(std::abs(Dequantized(*stored, RowStorage::kInt8, 0, c) - small.GetDouble(c)), tiny);
  const TensorData wide = TensorData::From<float>(Dtype::kF32, {1, 2}, {-3e38f, 3e38f});
  EXPECT_FALSE(StoreRows(wide, RowStorage::kInt8));
  EXPECT_TRUE(StoreRows(wide, RowStorage::kFp8));
}

TEST(StoreRows, SaysWhichRowItCannotStore) {
  const auto message = [](float x, RowStorage storage) {
    const TensorData table = TensorData::From<float>(Dtype::kF32, {3, 2}, {1, 2, 3, 4, x, 6});
    const auto stored = StoreRows(table, storage);
    return stored ? std::string("stored") : stored.error().message;
  };
  EXPECT_EQ(message(NAN, RowStorage::kInt8), "row 2 holds nan, which int8 has no code for");
  EXPECT_EQ(message(-kInfinity, RowStorage::kInt4), "row 2 holds -inf, which int4 has no code for");
  EXPECT_EQ(message(kInfinity, RowStorage::kFp8), "row 2 holds inf, which fp8 has no code for");
  EXPECT_EQ(message(70000, RowStorage::kF16), "row 2 holds 70000, which f16 has no code for");
  EXPECT_EQ(message(kInfinity, RowStorage::kF16), "stored");
  EXPECT_EQ(message(70000, RowStorage::kBF16), "stored");
}

}  // namespace
}  // namespace fusec
