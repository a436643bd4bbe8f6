#include "compiler/driver/tune/tuning_file.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

MeasuredSize Measured() {
  KernelChoice cluster, rows;
  cluster.product = schedule::Warpgroup{{64, 64, 4, {.blocks = 8}}};
  rows.product = schedule::Rows{.most_rows = 4, .in_groups = true};
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
  std::string text = MeasuredText(Measured());
  const std::string from = "\"split_k_blocks\":8", to = "\"split_k_blocks\":3";
  ASSERT_NE(text.find(from), std::string::npos) << text;
  EXPECT_FALSE(ParseMeasured(text.replace(text.find(from), from.size(), to)));
}

TEST(TuningFile, ReadsItsOwnVersionOnly) {
  TuningFile file;
  file["sm_90a"] = {"a GPU", {{3, "k03", RegionClass::kMatMul, true, {Measured()}}}};
  std::string text = TuningText(file);
  const auto again = ParseTuning(text, "art/tuning.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->at("sm_90a").regions.at(0).sizes.at(0).kernels.size(), 2u);
  const std::string version = "\"version\": 2";
  ASSERT_NE(text.find(version), std::string::npos);
  const auto old =
      ParseTuning(text.replace(text.find(version), version.size(), "\"version\": 1"), "art/tuning.json");
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().message,
            "art/tuning.json: version is 1, expected 2; compile and tune the model with this release");
}

}  // namespace
}  // namespace fusec
