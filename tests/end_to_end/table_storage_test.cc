// Table storage through the program: answers are those for the table that the formulas give, and nothing else changes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/driver/tune/artifact_source.h"
#include "passes/stored_rows.h"
#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

using Json = nlohmann::json;
constexpr int64_t kRows = 9;

class TableStorageProgram : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder(); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Json FusecJson(const std::vector<std::string>& arguments) {
    const ChildResult child = Fusec(arguments);
    EXPECT_EQ(child.exit_code, 0) << child.errors;
    return Json::parse(child.output);
  }

  // Numbers of six digits, none of which lies between two codes; the last row is constant.
  static TensorData Table(int64_t columns) {
    TensorData table(Dtype::kF32, {kRows, columns});
    for (int64_t i = 0; i < table.element_count(); ++i) {
      const double x = std::round(1e6 * std::sin(1.7 * static_cast<double>(i) + 0.3)) / 1e6;
      table.SetDouble(i, i / columns == kRows - 1 ? 0.3 : x);
    }
    return table;
  }

  // rows = table[ids], bags = the sums of three rows each of the same table
  std::string Model(int64_t columns) const {
    const TensorData table = Table(columns);
    std::string numbers;
    for (int64_t i = 0; i < table.element_count(); ++i)
      numbers += (i == 0 ? "" : ", ") + std::to_string(table.GetDouble(i));
    const std::string path = folder_ + "/model.onnxtxt", width = std::to_string(columns);
    std::ofstream(path) << R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[batch] ids, int64[batch, 3] bag_ids) => (float[batch, )" << width << R"(] rows, float[batch, )" << width
                        << R"(] bags) <float[)" << kRows << ", " << width << R"(] "emb.0.weight" = {)" << numbers
                        << R"(}, int64[1] axes = {1}> {
  rows = Gather("emb.0.weight", ids)
  found = Gather("emb.0.weight", bag_ids)
  bags = ReduceSum<keepdims = 0>(found, axes)
})";
    return path;
  }

  std::string folder_;
};

// The formulas of stored_rows.h, implemented independently of the code that writes codes.
double Expected(const TensorData& table, RowStorage storage, int64_t row, int64_t column) {
  const int64_t columns = table.dims()[1];
  const double x = table.GetDouble(row * columns + column);
  double least = x, most = x, magnitude = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const double other = table.GetDouble(row * columns + c);
    least = std::min(least, other);
    most = std::max(most, other);
    magnitude = std::max(magnitude, std::abs(other));
  }
  if (storage == RowStorage::kF16) return HalfToDouble(DoubleToHalf(x));
  if (storage == RowStorage::kFp8) {
    const double scale = magnitude / 448;
    return E4M3ToDouble(DoubleToE4M3(x / scale)) * scale;
  }
  const double scale = (most - least) / (storage == RowStorage::kInt8 ? 255 : 15);
  return scale == 0 ? least : std::nearbyint((x - least) / scale) * scale + least;
}

TEST_F(TableStorageProgram, AnswersAreThoseOfTheDequantizedTable) {
  const std::vector<int64_t> ids = {0, 8, 3, -1, 5};
  const std::vector<int64_t> bag_ids = {0, 1, 2, 8, 8, 8, 3, 0, 7, 4, 5, 6, -9, 2, 2};
  ASSERT_TRUE(WriteNpy(folder_ + "/ids.npy", TensorData::From<int64_t>(Dtype::kI64, {5}, ids)));
  ASSERT_TRUE(WriteNpy(folder_ + "/bag_ids.npy", TensorData::From<int64_t>(Dtype::kI64, {5, 3}, bag_ids)));
  const auto from_front = [](int64_t id) { return id < 0 ? id + kRows : id; };
  for (const int64_t columns : {1, 3, 7, 16, 127}) {
    const std::string model = Model(columns);
    const TensorData table = Table(columns);
    for (const std::string name : {"int8", "int4", "fp8", "f16"}) {
      const RowStorage storage = *ParseRowStorage(name);
      const std::string out = folder_ + "/" + name + std::to_string(columns);
      const ChildResult built = Fusec({model, "-o", out, "--target", "cpu", "--cpu-level", "x86-64-v3",
                                       "--table-storage", "emb.*=" + name});
      ASSERT_EQ(built.exit_code, 0) << built.errors;
      const ChildResult ran = Fusec({"run", out, "--input", "ids=" + folder_ + "/ids.npy", "--input",
                                     "bag_ids=" + folder_ + "/bag_ids.npy", "--output", out + "_y"});
      ASSERT_EQ(ran.exit_code, 0) << ran.errors;
      const auto rows = ReadNpy(out + "_y/rows.npy"), bags = ReadNpy(out + "_y/bags.npy");
      ASSERT_TRUE(rows && bags);
      for (int64_t i = 0; i < 5 * columns; ++i) {
        const int64_t row = i / columns, column = i % columns;
        double bag = 0;
        for (int k = 0; k < 3; ++k) bag += Expected(table, storage, from_front(bag_ids[row * 3 + k]), column);
        const std::string where = name + " of " + std::to_string(columns) + " columns, element " + std::to_string(i);
        // f32 rounds codes * scale + bias: a few units of 2^-24 of numbers up to 1 each.
        EXPECT_NEAR(rows->GetDouble(i), Expected(table, storage, from_front(ids[row]), column), 3e-7) << where;
        EXPECT_NEAR(bags->GetDouble(i), bag, 1e-6) << where;
      }
    }
  }
}

TEST_F(TableStorageProgram, IsRecordedExplainedAndVerified) {
  const std::string model = Model(127), out = folder_ + "/out";
  const ChildResult built = Fusec({model, "-o", out, "--target", "cpu", "--cpu-level", "x86-64-v3", "--table-storage",
                                   "emb.*=f16", "--table-storage", "emb.[0-9].weight=int4"});
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  const Json explained = FusecJson({"explain", out, "--json"});
  const Json expected = {{"table", "emb.0.weight"}, {"storage", "int4"}, {"rows", kRows}, {"columns", 127},
                         {"bytes_before", kRows * 508}, {"bytes", kRows * (64 + 8)}};
  EXPECT_EQ(explained["table_storage"], Json::array({expected}));
  EXPECT_EQ(explained["footprint"]["weight_bytes"], kRows * (64 + 8));
  EXPECT_NE(Fusec({"explain", out}).output.find("emb.0.weight  int4"), std::string::npos);
  const auto source = ReadArtifactSource(out);  // what tune would write again
  ASSERT_TRUE(source) << source.error().message;
  ASSERT_EQ(source->contents.stored_tables.size(), 1u);
  EXPECT_EQ(source->contents.stored_tables[0].storage, "int4");

  const Json verified = FusecJson({"verify", out, "--model", model, "--json"});
  EXPECT_TRUE(verified["pass"]);
  EXPECT_EQ(verified["against"], Json::array({"interpreter"}));
  ASSERT_EQ(verified["drift"]["outputs"].size(), 2u);
  const Json& drift = verified["drift"]["outputs"][0];
  EXPECT_EQ(drift["name"], "rows");
  EXPECT_GT(drift["max_abs"], 0.01);  // half of a step of 2 / 15 at most
  EXPECT_LE(drift["max_abs"], 0.068);
  EXPECT_LE(drift["mean_abs"], drift["max_abs"]);
  EXPECT_GT(drift["spearman"], 0.99);
  EXPECT_EQ(Fusec({"verify", out, "--model", model, "--drift-bound", "0.3"}).exit_code, 0);
  const ChildResult bounded = Fusec({"verify", out, "--model", model, "--drift-bound", "0.01"});
  EXPECT_EQ(bounded.exit_code, 1) << bounded.output;
  EXPECT_EQ(Fusec({"verify", out, "--per-fusion"}).exit_code, 0);
  EXPECT_EQ(Fusec({"verify", out, "--model", model, "--bisect"}).exit_code, 0);
}

// onnxruntime's op with codes of 4 bits two a byte, whose zero point is 8, and a scale for each 2 of them.
TEST_F(TableStorageProgram, GatherBlockQuantizedKeepsItsTable) {
  const std::string model = folder_ + "/blocks.onnxtxt", out = folder_ + "/blocks";
  std::ofstream(model) << R"(<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
g (int64[batch] ids) => (float[batch, 4] y)
<uint8[3, 2] data = {16, 50, 84, 118, 152, 186}, float[3, 2] scales = {1, 2, 3, 4, 5, 6}> {
  y = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 2> (data, ids, scales)
})";
  ASSERT_TRUE(WriteNpy(folder_ + "/ids.npy", TensorData::From<int64_t>(Dtype::kI64, {2}, {2, -3})));
  const ChildResult built = Fusec({model, "-o", out, "--target", "cpu", "--cpu-level", "x86-64-v3"});
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  EXPECT_EQ(FusecJson({"explain", out, "--json"})["footprint"]["weight_bytes"], 6 + 6 * 4);
  const ChildResult ran = Fusec({"run", out, "--input", "ids=" + folder_ + "/ids.npy", "--output", out + "_y"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const auto y = ReadNpy(out + "_y/y.npy");
  ASSERT_TRUE(y);
  const std::vector<double> expected = {(8 - 8) * 5, (9 - 8) * 5, (10 - 8) * 6, (11 - 8) * 6,
                                        (0 - 8) * 1, (1 - 8) * 1, (2 - 8) * 2, (3 - 8) * 2};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(y->GetDouble(i), expected[static_cast<size_t>(i)]) << i;
}

}  // namespace
}  // namespace fusec
