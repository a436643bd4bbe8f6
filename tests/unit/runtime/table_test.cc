// The runtime stores rows with the same bits as the compiler stores them for a whole table.
#include "runtime/src/artifact/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "compiler/ir/tensor.h"
#include "passes/stored_rows.h"

namespace fusec {
namespace {

constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBF16, Dtype::kF64};

runtime::RowForm FormOf(const std::string& storage) {
  return storage == "int8"   ? runtime::RowForm::kInt8
         : storage == "int4" ? runtime::RowForm::kInt4
         : storage == "fp8"  ? runtime::RowForm::kFp8
         : storage == "f16"  ? runtime::RowForm::kF16
                             : runtime::RowForm::kBF16;
}

runtime::Table TableOf(const TensorData& data, runtime::RowForm form) {
  runtime::Table table;
  table.dtype = static_cast<fusec_dtype>(data.dtype());
  table.rows = data.dims()[0];
  table.columns = data.dims()[1];
  table.form = form;
  return table;
}

// Rows of all magnitudes and signs, with zeros of both signs, subnormals, and rows of equal elements.
TensorData Numbers(Dtype dtype, int64_t rows, int64_t columns) {
  TensorData data(dtype, {rows, columns});
  std::mt19937 random(static_cast<unsigned>(columns));
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int64_t r = 0; r < rows; ++r) {
    const int exponent = static_cast<int>(random() % 60) - 45;
    const double offset = r % 3 == 0 ? 3 * unit(random) : 0;
    for (int64_t c = 0; c < columns; ++c) {
      double x = std::ldexp(unit(random) + offset, exponent);
      if (r % 5 == 1) x = std::ldexp(1.0, exponent);
      if (r % 7 == 2 && c % 2 == 0) x = c % 4 == 0 ? 0.0 : -0.0;
      data.SetDouble(r * columns + c, x);
    }
  }
  return data;
}

TEST(RowTable, StoresWhatTheCompilerStores) {
  constexpr int64_t kRows = 300;
  for (const Dtype dtype : kDtypes) {
    for (const int64_t columns : {1, 2, 7, 16, 33}) {
      const TensorData data = Numbers(dtype, kRows, columns);
      for (const std::string& name : RowStorageNames()) {
        const auto stored = StoreRows(data, *ParseRowStorage(name));
        ASSERT_TRUE(stored) << stored.error().message;
        const runtime::Table table = TableOf(data, FormOf(name));
        ASSERT_EQ(table.stored_bytes() * kRows, static_cast<int64_t>(stored->rows.byte_count()));
        std::vector<std::byte> row(static_cast<size_t>(table.stored_bytes()));
        std::vector<float> factors(2);
        for (int64_t r = 0; r < kRows; ++r) {
          const void* from = data.bytes() + r * table.row_bytes();
          const std::string where =
              std::string(DtypeName(dtype)) + " as " + name + ", row " + std::to_string(r);
          ASSERT_TRUE(table.Holds(from)) << where;
          table.Store(from, row.data(), factors.data());
          ASSERT_EQ(
              std::memcmp(row.data(), stored->rows.bytes() + r * table.stored_bytes(), row.size()),
              0)
              << where;
          if (!stored->factors) continue;
          const size_t bytes = 4 * static_cast<size_t>(table.factor_count());
          ASSERT_EQ(std::memcmp(factors.data(),
                                stored->factors->bytes() + r * static_cast<int64_t>(bytes), bytes),
                    0)
              << where;
        }
      }
    }
  }
}

TEST(RowTable, HoldsWhatTheCompilerStores) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double numbers[] = {0,      65519.9, 65520,     1e38,       3.3e38,
                            3.5e38, 1e300,   kInfinity, -kInfinity, std::nan("")};
  for (const double x : numbers) {
    for (const double y : numbers) {
      TensorData data(Dtype::kF64, {1, 2});
      data.SetDouble(0, x);
      data.SetDouble(1, -y);
      for (const std::string& name : RowStorageNames()) {
        EXPECT_EQ(TableOf(data, FormOf(name)).Holds(data.bytes()),
                  StoreRows(data, *ParseRowStorage(name)).has_value())
            << x << ", " << -y << " as " << name;
      }
    }
  }
}

TEST(RowTable, CastsAsTheCompilerDoes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Dtype from : kDtypes) {
    for (const Dtype to : kDtypes) {
      const TensorData numbers = Numbers(from, 200, 3);
      TensorData special(from, {1, 3});
      for (int i = 0; i < 3; ++i)
        special.SetDouble(i, i == 0 ? kInfinity : i == 1 ? -kInfinity : std::nan(""));
      for (const TensorData* data : {&numbers, static_cast<const TensorData*>(&special)}) {
        const runtime::Table table = TableOf(*data, static_cast<runtime::RowForm>(to));
        TensorData expected(to, data->dims()), found(to, data->dims());
        for (int64_t i = 0; i < data->element_count(); ++i)
          expected.SetDouble(i, data->GetDouble(i));
        if (from == to) expected = *data;
        for (int64_t r = 0; r < data->dims()[0]; ++r) {
          ASSERT_TRUE(table.Holds(data->bytes() + r * table.row_bytes()));
          table.Store(
              data->bytes() + r * table.row_bytes(),
              reinterpret_cast<std::byte*>(found.mutable_bytes()) + r * table.stored_bytes(),
              nullptr);
        }
        EXPECT_EQ(std::memcmp(found.bytes(), expected.bytes(), expected.byte_count()), 0)
            << DtypeName(from) << " to " << DtypeName(to);
      }
    }
  }
}

}  // namespace
}  // namespace fusec
