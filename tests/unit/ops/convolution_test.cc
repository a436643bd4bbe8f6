#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

TEST(Conv, ByHand) {
  const auto y = RunBothWays(R"(graph @g(%x: f32[n, 1, 4], %w: f32[1, 1, 2], %b: f32[1]) symbols(n in 0..9) {
    %y = conv(%x, %w, %b) {dilations = [1], group = 1, pads = [1, 0], strides = [2]} : f32[n, 1, 2]
    return %y })",
                             {Reals({1, 1, 4}, {1, 2, 3, 4}), Reals({1, 1, 2}, {10, 1}),
                              Reals({1}, {0.5})});
  EXPECT_EQ(y[0].reals, (std::vector<double>{1.5, 23.5}));
}

TEST(Conv, WindowsOfEveryKind) {
  // Width 1, as xDeepFM has it, over a free length.
  RunBothWays(R"(graph @g(%x: f32[n, 6, m], %w: f32[4, 6, 1]) symbols(n in 0..9, m in 1..9) {
    %y = conv(%x, %w) {dilations = [1], group = 1, pads = [0, 0], strides = [1]} : f32[n, 4, m]
    return %y })",
              {Noise({2, 6, 5}, 1), Noise({4, 6, 1}, 2)});
  RunBothWays(R"(graph @g(%x: f32[n, 6, m], %w: f32[4, 3, 3]) symbols(n in 0..9, m in 1..9) {
    %y = conv(%x, %w) {dilations = [2], group = 2, pads = [2, 2], strides = [1]} : f32[n, 4, m]
    return %y })",
              {Noise({2, 6, 5}, 1), Noise({4, 3, 3}, 2)});
  RunBothWays(R"(graph @g(%x: f32[n, 2, 7, 8], %w: f32[2, 1, 3, 2], %b: f32[2]) symbols(n in 0..9) {
    %y = conv(%x, %w, %b) {dilations = [1, 3], group = 2, pads = [1, 0, 0, 2], strides = [2, 3]}
        : f32[n, 2, 3, 3]
    return %y })",
              {Noise({3, 2, 7, 8}, 1), Noise({2, 1, 3, 2}, 2), Noise({2}, 3)});
  const auto y = RunBothWays(R"(graph @g(%x: f32[n, 2, 3], %w: f32[2, 2, 3]) symbols(n in 0..9) {
    %y = conv(%x, %w) {dilations = [1], group = 1, pads = [0, 0], strides = [1]} : f32[n, 2, 1]
    return %y })",
                             {Reals({0, 2, 3}, {}), Noise({2, 2, 3}, 2)});
  EXPECT_EQ(y[0].dims, (std::vector<int64_t>{0, 2, 1}));
}

TEST(Conv, WrongOperandsAreNamed) {
  const auto error_of = [](const std::string& x, const std::string& w, int group) {
    return ErrorOfText("graph @g(%x: " + x + ", %w: " + w + ") { %y = conv(%x, %w) {dilations = [1], group = " +
                       std::to_string(group) +
                       ", pads = [0, 0], strides = [1]} : f32[2, 4, 5] return %y }");
  };
  EXPECT_NE(error_of("f32[2, 5, 5]", "f32[4, 3, 1]", 2).find("x has 5 channels, expected 2 groups of 3"),
            std::string::npos);
  EXPECT_NE(error_of("f32[2, 9, 5]", "f32[4, 3, 1]", 3).find("group is 3, expected a divisor of the 4"),
            std::string::npos);
  EXPECT_NE(error_of("f32[2, 3, 5]", "f32[4, 3, 7]", 1).find("axis 2 has 5 elements, too few for a window of 7"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
