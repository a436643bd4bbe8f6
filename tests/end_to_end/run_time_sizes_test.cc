// Outputs whose size depends on data, through the C++ API of the runtime.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <fusec/fusec.hpp>
#include <numeric>

#include "compiler/support/child_process.h"

namespace fusec {
namespace {

using Dims = std::vector<int64_t>;
using FusecContext = ::fusec::Context;
using FusecProgram = ::fusec::Program;

constexpr char kModel[] = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 2] x, int64[2] lengths) => (float[k, 2] first, float[n, 2] twice, int64[2, m] places) {
  first, second = Split<axis = 0>(x, lengths)
  twice = Add(x, x)
  places = NonZero(x)
})";

class RunTimeSizes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = *MakeTemporaryFolder();
    std::ofstream(folder_ + "/model.onnxtxt") << kModel;
    const ChildResult child =
        RunChild({FUSEC_PROGRAM, folder_ + "/model.onnxtxt", "-o", folder_ + "/art", "--target",
                  "cpu", "--cpu-level", "x86-64-v3"});
    ASSERT_EQ(child.exit_code, 0) << child.errors;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  RunTimeSizes() : program_(folder_ + "/art", "cpu"), context_(program_) {}

  // Rows 0, 1, 2, ...: the first two elements are 0 and 1, so that a NonZero of n rows has 2n - 1.
  void Bind(int64_t rows, Dims lengths) {
    x_.resize(rows * 2);
    std::iota(x_.begin(), x_.end(), 0.0f);
    lengths_ = std::move(lengths);
    context_.BindInput("x", x_, {rows, 2});
    context_.BindInput("lengths", lengths_, {2});
  }

  static std::string folder_;
  FusecProgram program_;
  FusecContext context_;
  std::vector<float> x_;
  Dims lengths_;
};
std::string RunTimeSizes::folder_;

TEST_F(RunTimeSizes, AreNoOutput) {
  const auto outputs = program_.Outputs();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_TRUE(outputs[0].has_run_time_dims);
  EXPECT_FALSE(outputs[1].has_run_time_dims);
  EXPECT_TRUE(outputs[2].has_run_time_dims);
  EXPECT_EQ(outputs[2].dims, (std::vector<std::string>{"2", "n*2"}));
  EXPECT_EQ(fusec_output_has_run_time_dims(program_.handle(), 3), 0);
  EXPECT_THROW(context_.BindOutput(3, nullptr, 0), Exception);
}

TEST_F(RunTimeSizes, AreTheMostBeforeARunAndTrueAfterwards) {
  Bind(4, {3, 1});
  EXPECT_EQ(context_.OutputDims("first"), (Dims{4, 2}));
  context_.Run();
  EXPECT_EQ(context_.OutputDims("first"), (Dims{3, 2}));
  EXPECT_EQ(context_.OutputBounds("first"), (Dims{4, 2}));
  EXPECT_EQ(context_.OutputDims("twice"), (Dims{4, 2}));
  EXPECT_EQ(context_.OutputDims("places"), (Dims{2, 7}));
  const auto first = context_.Output<float>("first");
  EXPECT_EQ(std::vector<float>(first.begin(), first.end()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const auto places = context_.Output<int64_t>("places");
  EXPECT_EQ(Dims(places.begin(), places.end()), (Dims{0, 1, 1, 2, 2, 3, 3, 1, 0, 1, 0, 1, 0, 1}));

  Bind(2, {0, 2});
  EXPECT_EQ(context_.OutputDims("first"), (Dims{2, 2}));
  context_.RunAsync(nullptr);  // on the CPU, it has ended
  EXPECT_EQ(context_.OutputDims("first"), (Dims{0, 2}));
  context_.Synchronize();
  EXPECT_EQ(context_.Output<float>("first").size(), 0u);
  EXPECT_EQ(context_.OutputDims("places"), (Dims{2, 3}));
}

TEST_F(RunTimeSizes, MemoryHasRoomForTheMost) {
  Bind(3, {1, 2});
  std::vector<float> first(6, -1);
  context_.BindOutput("first", first.data(), 5 * sizeof(float));
  EXPECT_THROW(context_.Run(), Exception);
  context_.BindOutput("first", first.data(), 6 * sizeof(float));
  context_.Run();
  EXPECT_EQ(context_.OutputDims("first"), (Dims{1, 2}));
  EXPECT_EQ(first[1], 1);
}

TEST_F(RunTimeSizes, AreNotThereAfterARunThatFailed) {
  Bind(4, {3, 1});
  context_.Run();
  for (const Dims& lengths : {Dims{9, -5}, Dims{-1, 5}}) {
    Bind(4, lengths);
    EXPECT_THROW(context_.Run(), Exception);
    EXPECT_EQ(context_.OutputDims("first"), (Dims{4, 2}));
    EXPECT_THROW(context_.Output<float>("first"), Exception);
  }
  Bind(4, {2, 2});
  context_.Run();
  EXPECT_EQ(context_.OutputDims("first"), (Dims{2, 2}));
}

TEST_F(RunTimeSizes, OfAnEmptyBatch) {
  Bind(0, {0, 0});
  context_.Run();
  EXPECT_EQ(context_.OutputDims("first"), (Dims{0, 2}));
  EXPECT_EQ(context_.OutputDims("places"), (Dims{2, 0}));
}

}  // namespace
}  // namespace fusec
