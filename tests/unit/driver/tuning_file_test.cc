#include "compiler/driver/tune/tuning_file.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

MeasuredSize Measured() {
  KernelChoice cluster, rows;
  cluster.product.kind = MatMulKernel::Kind::kWarpgroups;
  cluster.product.tile = {64, 64, 128, 4, 1, 1, 4, 8};
  rows.product.kind = MatMulKernel::Kind::kRows;
  rows.product.most_rows = 4;
  rows.product.in_groups = true;
  rows.shape.block_size = 256;
  return {{{"batch", 64}}, 64, 1000, 2000, {{rows, 6.5, ""}, {cluster, 5.25, ""}}, 1};
}

TEST(TuningFile, SaysAllOfAChoice) {
  const MeasuredSize measured = Measured();
  const auto again = ParseMeasured(MeasuredText(measured));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->dims, measured.dims);
  EXPECT_EQ(again->winner, measured.winner);
  ASSERT_EQ(again->kernels.size(), measured.kernels.size());
  for (size_t i = 0; i < measured.kernels.size(); ++i) {
    EXPECT_EQ(again->kernels[i].choice, measured.kernels[i].choice) << i;
    EXPECT_EQ(again->kernels[i].microseconds, measured.kernels[i].microseconds);
  }
}

TEST(TuningFile, TakesNoTileThatThereCannotBe) {
  const std::string text = MeasuredText(Measured());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return ParseMeasured(other.replace(at, from.size(), to)).has_value();
  };
  EXPECT_TRUE(with("\"cluster_blocks\":8", "\"cluster_blocks\":4"));
  EXPECT_FALSE(with("\"cluster_blocks\":8", "\"cluster_blocks\":3"));
  EXPECT_FALSE(with("\"cluster_blocks\":8", "\"cluster_blocks\":0"));
  EXPECT_FALSE(with("\"cluster_blocks\":8", "\"cluster_blocks\":16"));
  EXPECT_FALSE(with("[64,64,128", "[0,64,128"));
  EXPECT_FALSE(with("[64,64,128", "[64,-64,128"));
}

}  // namespace
}  // namespace fusec
