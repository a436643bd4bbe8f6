#include <limits>

#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

ReferenceTensor Softmax(const std::string& op, const std::string& type, int axis,
                        const ReferenceTensor& x) {
  return RunBothWays("graph @g(%x: " + type + ")" + SymbolsOf(type) + " { %y = " + op +
                         "(%x) {axis = " + std::to_string(axis) + "} : " + type + " return %y }",
                     {x})[0];
}

TEST(Softmax, Rows) {
  const ReferenceTensor y =
      Softmax("softmax", "f32[n, 2]", 1, Reals({2, 2}, {0, std::log(3), 1000, 1000}));
  ExpectClose(y, Reals({2, 2}, {0.25, 0.75, 0.5, 0.5}));
  const ReferenceTensor z =
      Softmax("log_softmax", "f32[n, 2]", 0, Reals({2, 2}, {0, 5, std::log(3), 5}));
  ExpectClose(z, Reals({2, 2}, {std::log(0.25), std::log(0.5), std::log(0.75), std::log(0.5)}));
  Softmax("softmax", "f16[2, n, 3]", 1, Noise({2, 4, 3}, 1, Dtype::kF16));
}

TEST(Softmax, Infinities) {
  const ReferenceTensor y =
      Softmax("softmax", "f32[2, 2]", 1, Reals({2, 2}, {-kInf, 0, -kInf, -kInf}));
  EXPECT_EQ(y.reals[0], 0);
  EXPECT_EQ(y.reals[1], 1);
  EXPECT_TRUE(std::isnan(y.reals[2]));
  EXPECT_EQ(Softmax("softmax", "f32[n, 2]", 1, Reals({0, 2}, {})).reals.size(), 0u);
  EXPECT_EQ(Softmax("softmax", "f32[2, n]", 1, Reals({2, 0}, {})).reals.size(), 0u);
}

TEST(LayerNormalization, ByHand) {
  const auto y =
      RunBothWays(R"(graph @g(%x: f32[n, 2], %s: f32[2], %b: f32[2]) symbols(n in 0..9) {
    %y, %m, %d = layer_normalization(%x, %s, %b) {axis = 1, epsilon = 0.0, stash = f32}
        : f32[n, 2], f32[n, 1], f32[n, 1]
    return %y, %m, %d })",
                  {Reals({2, 2}, {1, 3, -2, 2}), Reals({2}, {10, 100}), Reals({2}, {0.5, 0})});
  EXPECT_EQ(y[0].reals, (std::vector<double>{-9.5, 100, -9.5, 100}));
  EXPECT_EQ(y[1].reals, (std::vector<double>{2, 0}));
  EXPECT_EQ(y[2].reals, (std::vector<double>{1, 0.5}));
}

TEST(LayerNormalization, SeveralAxesInHalf) {
  RunBothWays(R"(graph @g(%x: f16[3, n, 4], %s: f16[n, 4], %b: f16[1]) symbols(n in 0..9) {
    %y, %m, %d = layer_normalization(%x, %s, %b) {axis = 1, epsilon = 0.125, stash = f32}
        : f16[3, n, 4], f32[3, 1, 1], f32[3, 1, 1]
    return %y, %m, %d })",
              {Noise({3, 2, 4}, 1, Dtype::kF16), Noise({2, 4}, 2, Dtype::kF16),
               Noise({1}, 3, Dtype::kF16)});
}

TEST(RMSNormalization, ByHand) {
  const auto y = RunBothWays(R"(graph @g(%x: f32[n, 2], %s: f32[2]) symbols(n in 0..9) {
    %y = rms_normalization(%x, %s) {axis = 1, epsilon = 0.5} : f32[n, 2]
    return %y })",
                             {Reals({1, 2}, {std::sqrt(3.0), 2}), Reals({2}, {1, 3})});
  ExpectClose(y[0], Reals({1, 2}, {std::sqrt(3.0) / 2, 3}));
}

TEST(BatchNormalization, FoldsStatistics) {
  const std::string text = R"(graph @g(%x: f32[n, 2, 2]) symbols(n in 0..9) {
    %s = constant() [2.0, 6.0] : f32[2]
    %b = constant() [1.0, 0.0] : f32[2]
    %m = constant() [1.0, -1.0] : f32[2]
    %v = constant() [3.0, 8.0] : f32[2]
    %y = batch_normalization(%x, %s, %b, %m, %v) {epsilon = 1.0} : f32[n, 2, 2]
    return %y })";
  const ReferenceTensor x = Reals({1, 2, 2}, {1, 2, 3, -1});
  ExpectClose(RunText(text, {x})[0], Reals({1, 2, 2}, {1, 2, 8, 0}));
  const auto graph = ParseGraph(text);
  DecomposeAll(*graph);
  int of_x = 0;  // only a multiplication and an addition touch x; the rest is of constants
  for (const auto& node : graph->nodes)
    of_x += node->result()->type.rank() == 3 && !node->operands.empty();
  EXPECT_EQ(of_x, 2);
}

TEST(GroupNormalization, PerChannelAndPerGroup) {
  const std::string head = "graph @g(%x: f32[n, 4, 2], %s: f32[";
  const std::string tail =
      "]) symbols(n in 0..9) { %y = group_normalization(%x, %s, %b) {epsilon = 0.0, "
      "num_groups = 2, per_group = ";
  const ReferenceTensor x = Reals({1, 4, 2}, {1, 1, 3, 3, 0, 4, 4, 0});
  const auto channels = RunText(head + "4], %b: f32[4" + tail + "0} : f32[n, 4, 2] return %y }",
                                {x, Reals({4}, {1, 2, 3, 4}), Reals({4}, {0, 0, 10, 0})});
  EXPECT_EQ(channels[0].reals, (std::vector<double>{-1, -1, 2, 2, 7, 13, 4, -4}));
  const auto groups = RunText(head + "2], %b: f32[2" + tail + "1} : f32[n, 4, 2] return %y }",
                              {x, Reals({2}, {1, 2}), Reals({2}, {0, 10})});
  EXPECT_EQ(groups[0].reals, (std::vector<double>{-1, -1, 1, 1, 8, 12, 12, 8}));
}

TEST(InstanceNormalization, ByHand) {
  const auto y = RunText(R"(graph @g(%x: f32[1, 2, n], %s: f32[2], %b: f32[2]) symbols(n in 0..9) {
    %y = instance_normalization(%x, %s, %b) {epsilon = 0.0} : f32[1, 2, n]
    return %y })",
                         {Reals({1, 2, 2}, {1, 3, 0, 8}), Reals({2}, {1, 5}), Reals({2}, {0, 1})});
  EXPECT_EQ(y[0].reals, (std::vector<double>{-1, 1, -4, 6}));
}

TEST(MeanVarianceNormalization, ByHand) {
  const auto y = RunText(R"(graph @g(%x: f32[2, 2]) {
    %y = mean_variance_normalization(%x) {axes = [0]} : f32[2, 2]
    return %y })",
                         {Reals({2, 2}, {1, 0, 3, 8})});
  ExpectClose(y[0], Reals({2, 2}, {-1, -1, 1, 1}), 1e-8);
}

TEST(Variadic, SumAndMean) {
  const std::string head = "graph @g(%a: f32[2], %b: f32[2, 1], %c: f32[]) { %y = ";
  const std::vector<ReferenceTensor> in = {Reals({2}, {1, 2}), Reals({2, 1}, {10, 20}),
                                           Reals({}, {3})};
  EXPECT_EQ(RunText(head + "sum(%a, %b, %c) : f32[2, 2] return %y }", in)[0].reals,
            (std::vector<double>{14, 15, 24, 25}));
  EXPECT_EQ(RunText(head + "mean(%a, %b, %c) : f32[2, 2] return %y }", in)[0].reals[3], 25.0 / 3);
}

TEST(Normalization, Errors) {
  EXPECT_NE(ErrorOfText(R"(graph @g(%x: f32[4, 2], %s: f32[3]) {
    %y = rms_normalization(%x, %s) {axis = 1, epsilon = 0.5} : f32[4, 2] return %y })")
                .find("scale is f32[3], expected floats that broadcast to f32[4, 2]"),
            std::string::npos);
  EXPECT_NE(ErrorOfText(R"(graph @g(%x: f32[1, 4, 2], %s: f32[4]) {
    %y = group_normalization(%x, %s, %s) {epsilon = 0.5, num_groups = 3, per_group = 0}
        : f32[1, 4, 2] return %y })")
                .find("num_groups is 3, expected a divisor of the 4 channels"),
            std::string::npos);
  EXPECT_NE(ErrorOfText("graph @g(%x: i32[4]) { %y = softmax(%x) {axis = 0} : i32[4] return %y }")
                .find("the operand is i32, expected a float type"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
