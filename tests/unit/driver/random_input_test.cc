#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/driver/artifact/artifact_session.h"

namespace fusec {
namespace {

runtime::DimExpression Dim(const std::string& text) {
  const std::vector<std::string> symbols = {"batch"};
  return *runtime::DimExpression::Parse(text, symbols);
}

// One input of that type and with these limits along axis 1; "batch" is 4000.
TensorData DrawTensor(fusec_dtype dtype, ArrayRef<std::string> shape,
                      ArrayRef<std::string> limits, const RandomFlags& flags = {}) {
  runtime::Manifest manifest;
  manifest.symbols.push_back({"batch", 1, 65536});
  runtime::TensorSignature input;
  input.name = "ids";
  input.dtype = dtype;
  for (const std::string& dim : shape) input.shape.push_back(Dim(dim));
  for (const std::string& limit : limits) input.index_limits.push_back(Dim(limit));
  if (limits.size() > 1) input.index_axis = 1;
  manifest.inputs.push_back(input);
  auto data = RandomInput(manifest, 0, {{"batch", 4000}}, flags);
  EXPECT_TRUE(data) << data.error().message;
  return data ? std::move(*data) : TensorData();
}

std::vector<int64_t> Draw(fusec_dtype dtype, ArrayRef<std::string> shape,
                          ArrayRef<std::string> limits, const RandomFlags& flags = {}) {
  const TensorData data = DrawTensor(dtype, shape, limits, flags);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < data.element_count(); ++i) values.push_back(data.GetInt(i));
  return values;
}

TEST(RandomInput, IdsSpreadOverTheTableOfTheirColumn) {
  const std::vector<int64_t> values = Draw(FUSEC_I64, {"batch", "3", "2"}, {"2", "1000", "batch"});
  const int64_t limits[] = {2, 1000, 4000};
  double sums[3] = {};
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t column = i / 2 % 3;
    EXPECT_GE(values[i], 0);
    EXPECT_LT(values[i], limits[column]);
    sums[column] += static_cast<double>(values[i]);
  }
  // The mean of 8,000 even draws is within 5 of its standard errors, limit / sqrt(12 * 8000).
  for (int i = 0; i < 3; ++i) {
    const auto limit = static_cast<double>(limits[i]);
    EXPECT_NEAR(sums[i] / 8000, (limit - 1) / 2, 5 * limit / 309);
  }
}

TEST(RandomInput, ZipfIdsAreMostlySmallAndReachAll) {
  const RandomFlags zipf{3, "zipf"};
  std::vector<int64_t> values = Draw(FUSEC_I32, {"batch"}, {"1000"}, zipf);
  EXPECT_EQ(values, Draw(FUSEC_I32, {"batch"}, {"1000"}, zipf));
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values.front(), 0);
  EXPECT_LT(values[values.size() / 2], 40);  // the square root of 1001
  EXPECT_GT(values.back(), 950);
  EXPECT_LT(values.back(), 1000);
}

TEST(RandomInput, NarrowTypesHoldWhatIsDrawn) {
  for (const int64_t value : Draw(FUSEC_I8, {"batch"}, {"5000"})) EXPECT_GE(value, 0);
  for (const int64_t value : Draw(FUSEC_BOOL, {"batch"}, {})) EXPECT_LE(value, 1);
  for (const int64_t value : Draw(FUSEC_I64, {"batch"}, {"0"})) EXPECT_EQ(value, 0);
}

TEST(RandomInput, PlacesInOneTableAscendInAnyType) {
  for (const fusec_dtype dtype : {FUSEC_I64, FUSEC_F32}) {
    runtime::Manifest manifest;
    manifest.symbols.push_back({"batch", 1, 65536});
    runtime::TensorSignature input;
    input.dtype = dtype;
    input.shape = {Dim("3"), Dim("batch")};
    if (dtype == FUSEC_I64) input.index_limits = {Dim("300")};
    input.ascending = true;
    manifest.inputs.push_back(input);
    const auto data = RandomInput(manifest, 0, {{"batch", 50}}, {});
    ASSERT_TRUE(data) << data.error().message;
    for (int64_t i = 0; i < 150; ++i) {
      if (i % 50 == 0) continue;
      EXPECT_LE(data->GetDouble(i - 1), data->GetDouble(i));
    }
    EXPECT_LT(data->GetDouble(0), data->GetDouble(49));
  }
}

TEST(RandomInput, FloatsAreIdsWhereTheirColumnHasALimit) {
  const TensorData data = DrawTensor(FUSEC_F32, {"batch", "2"}, {"0", "300"});
  double most[2] = {};
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const double value = data.GetDouble(i);
    most[i % 2] = std::max(most[i % 2], value);
    if (i % 2 == 0) {
      EXPECT_GE(value, -1);
      EXPECT_LT(value, 1);
    } else {
      EXPECT_EQ(value, static_cast<int64_t>(value));
      EXPECT_GE(value, 0);
      EXPECT_LT(value, 300);
    }
  }
  EXPECT_GT(most[0], 0.9);
  EXPECT_EQ(most[1], 299);
  // A half has no place for every integer above 256 or 2048.
  const TensorData halves = DrawTensor(FUSEC_BF16, {"batch"}, {"100000"});
  for (int64_t i = 0; i < halves.element_count(); ++i) EXPECT_LT(halves.GetDouble(i), 256);
}

}  // namespace
}  // namespace fusec
