#include "compiler/driver/tune/tuning_file.h"

#include <gtest/gtest.h>

#include <cstring>

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

// A cast of these numbers would change them, or is undefined.
TEST(TuningFile, TakesNoNumberThatDoesNotFit) {
  const std::string text = MeasuredText(Measured());
  for (const auto& [from, to] : {std::pair{"\"size\":64", "\"size\":1e308"},
                                 {"\"block_size\":256", "\"block_size\":4294967552"},
                                 {"\"batch\":64", "\"batch\":18446744073709551615"},
                                 {"\"winner\":1", "\"winner\":-1"},
                                 {"\"most_rows\":4", "\"most_rows\":4.5"}}) {
    std::string other = text;
    ASSERT_NE(text.find(from), std::string::npos) << text;
    EXPECT_FALSE(ParseMeasured(other.replace(text.find(from), strlen(from), to))) << to;
  }
}

TEST(TuningFile, ErrorsAreOneLine) {
  TuningFile file;
  file["cpu"] = {"a CPU", {{0, "k00", RegionClass::kMatMul, true, {Measured()}}}};
  std::string text = TuningText(file);
  const std::string from = "\"kind\": \"rows\"";
  ASSERT_NE(text.find(from), std::string::npos) << text;
  const auto tuning =
      ParseTuning(text.replace(text.find(from), from.size(), R"("kind": "a\nb")"), "tuning.json");
  ASSERT_FALSE(tuning);
  EXPECT_TRUE(tuning.error().message.ends_with(R"(there is no "a\nb")")) << tuning.error().message;
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
  const auto old = ParseTuning(text.replace(text.find(version), version.size(), "\"version\": 1"),
                               "art/tuning.json");
  ASSERT_FALSE(old);
  EXPECT_EQ(
      old.error().message,
      "art/tuning.json: version is 1, expected 2; compile and tune the model with this release");
}

MeasuredSize Timed(int64_t size, std::vector<std::pair<int, double>> us_of_blocks) {
  MeasuredSize measured{{{"batch", size}}, size, 0, 0, {}, 0};
  for (const auto& [block_size, us] : us_of_blocks) {
    MeasuredKernel& kernel = measured.kernels.emplace_back();
    kernel.choice.shape.block_size = block_size;
    kernel.microseconds = us;
    if (us == 0) kernel.problem = "its answers differ";
  }
  return measured;
}

// Here 0 threads per block stand for the kernel as planned.
TEST(TuningFile, TakesTheKernelThatIsBestOverAllSizes) {
  const auto winners = [](std::vector<MeasuredSize> sizes) {
    MeasuredRegion region{0, "k00", RegionClass::kPointwise, true, std::move(sizes)};
    TakeOneWinner(region);
    std::vector<size_t> numbers;
    for (const MeasuredSize& size : region.sizes) numbers.push_back(size.winner);
    return numbers;
  };
  using Numbers = std::vector<size_t>;
  // 64 is twice as fast at one size and as fast at the other; 128 is three times as fast, and slow.
  EXPECT_EQ(
      winners({Timed(1, {{0, 6}, {64, 3}, {128, 2}}), Timed(9, {{0, 6}, {64, 6}, {128, 60}})}),
      Numbers({1, 1}));
  // A candidate that fails at some size, or is missing, wins at no size.
  EXPECT_EQ(winners({Timed(1, {{0, 6}, {64, 1}}), Timed(9, {{0, 6}, {64, 0}})}), Numbers({0, 0}));
  EXPECT_EQ(winners({Timed(1, {{0, 6}, {64, 1}}), Timed(9, {{0, 6}})}), Numbers({0, 0}));
  // As where kernels are chosen by size, a candidate that is faster by less than the noise does not win.
  EXPECT_EQ(winners({Timed(1, {{0, 6}, {64, 5.95}})}), Numbers({0}));
  EXPECT_EQ(winners({}), Numbers());
}

}  // namespace
}  // namespace fusec
