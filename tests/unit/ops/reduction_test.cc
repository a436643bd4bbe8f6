#include <limits>

#include "tests/unit/ops/run_graph.h"

namespace fusec {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// One reduction of an input of `in` to a result of `out`.
std::string Text(const std::string& op, const std::string& in, const std::string& axes,
                 const std::string& out, int keepdims = 0) {
  return "graph @g(%x: " + in + ")" + SymbolsOf(in) + " { %y = " + op + "(%x) {axes = " + axes +
         ", keepdims = " + std::to_string(keepdims) + "} : " + out + " return %y }";
}

ReferenceTensor Reduce(const std::string& op, const std::string& in, const std::string& axes,
                       const std::string& out, const ReferenceTensor& x, int keepdims = 0) {
  return RunBothWays(Text(op, in, axes, out, keepdims), {x})[0];
}

TEST(Reduction, FoldsAlongAxes) {
  const ReferenceTensor x = Reals({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Reduce("reduce_sum", "f32[n, 3]", "[1]", "f32[n]", x).reals,
            (std::vector<double>{6, 15}));
  EXPECT_EQ(Reduce("reduce_sum", "f32[2, 3]", "[0]", "f32[1, 3]", x, 1).reals,
            (std::vector<double>{5, 7, 9}));
  EXPECT_EQ(Reduce("reduce_mean", "f32[2, 3]", "[0, 1]", "f32[]", x).reals,
            std::vector<double>{3.5});
  EXPECT_EQ(Reduce("reduce_prod", "f32[2, 3]", "[1]", "f32[2]", x).reals,
            (std::vector<double>{6, 120}));
  EXPECT_EQ(Reduce("reduce_max", "f32[2, 3]", "[0]", "f32[3]", x).reals,
            (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(Reduce("reduce_sum", "f32[2, 3]", "[]", "f32[2, 3]", x).reals, x.reals);
  EXPECT_EQ(Reduce("reduce_l1", "f32[2, 3]", "[1]", "f32[2]", x).reals,
            (std::vector<double>{6, 15}));
  EXPECT_EQ(Reduce("reduce_sum_square", "f32[2, 3]", "[1]", "f32[2]", x).reals,
            (std::vector<double>{14, 77}));
}

TEST(Reduction, OfNothing) {
  const ReferenceTensor none = Reals({2, 0}, {});
  const auto of = [&](const std::string& op) {
    return Reduce(op, "f32[2, n]", "[1]", "f32[2]", none).reals;
  };
  EXPECT_EQ(of("reduce_sum"), (std::vector<double>{0, 0}));
  EXPECT_EQ(of("reduce_prod"), (std::vector<double>{1, 1}));
  EXPECT_EQ(of("reduce_max"), (std::vector<double>{-kInf, -kInf}));
  EXPECT_EQ(of("reduce_min"), (std::vector<double>{kInf, kInf}));
  EXPECT_EQ(of("reduce_log_sum_exp"), (std::vector<double>{-kInf, -kInf}));
  EXPECT_TRUE(std::isnan(of("reduce_mean")[0]));
  EXPECT_EQ(Reduce("reduce_max", "i8[n]", "[0]", "i8[]", Integers({0}, {}, Dtype::kI8)).ints,
            std::vector<int64_t>{-128});
  EXPECT_EQ(Reduce("reduce_min", "u16[n]", "[0]", "u16[]", Integers({0}, {}, Dtype::kU16)).ints,
            std::vector<int64_t>{65535});
}

TEST(Reduction, NaNAndInfinities) {
  const ReferenceTensor x = Reals({2, 3}, {1, kNaN, 3, -kInf, -kInf, -kInf});
  EXPECT_TRUE(std::isnan(Reduce("reduce_max", "f32[2, 3]", "[1]", "f32[2]", x).reals[0]));
  EXPECT_TRUE(std::isnan(Reduce("reduce_min", "f32[2, 3]", "[1]", "f32[2]", x).reals[0]));
  const auto log_sum = Reduce("reduce_log_sum_exp", "f32[2, 3]", "[1]", "f32[2]", x).reals;
  EXPECT_TRUE(std::isnan(log_sum[0]));
  EXPECT_EQ(log_sum[1], -kInf);
  const ReferenceTensor big = Reals({2}, {1000, 1000});
  EXPECT_NEAR(Reduce("reduce_log_sum_exp", "f32[2]", "[0]", "f32[1]", big, 1).reals[0],
              1000 + std::log(2), 1e-9);
}

TEST(Reduction, IntegersWrapAndTruncate) {
  const ReferenceTensor bytes = Integers({3}, {100, 100, -7}, Dtype::kI8);
  EXPECT_EQ(Reduce("reduce_sum", "i8[3]", "[0]", "i8[]", bytes).ints[0], -63);
  EXPECT_EQ(
      Reduce("reduce_mean", "i32[2]", "[0]", "i32[]", Integers({2}, {-3, -4}, Dtype::kI32)).ints[0],
      -3);
  const ReferenceTensor unsigned_values = Integers({2}, {-1, 5}, Dtype::kU64);
  EXPECT_EQ(Reduce("reduce_max", "u64[2]", "[0]", "u64[]", unsigned_values).ints[0], -1);
  const ReferenceTensor bools = Integers({2, 2}, {0, 1, 0, 0}, Dtype::kBool);
  EXPECT_EQ(Reduce("reduce_max", "bool[2, 2]", "[1]", "bool[2]", bools).ints,
            (std::vector<int64_t>{1, 0}));
}

std::vector<int64_t> Arg(const std::string& op, const ReferenceTensor& x, int select_last) {
  return RunText("graph @g(%x: f32[4]) { %y = " + op +
                     "(%x) {axes = [0], keepdims = 0, select_last_index = " +
                     std::to_string(select_last) + "} : i64[] return %y }",
                 {x})[0]
      .ints;
}

TEST(ArgReduction, TiesAndNaN) {
  const ReferenceTensor ties = Reals({4}, {1, 5, 5, 1});
  EXPECT_EQ(Arg("arg_max", ties, 0)[0], 1);
  EXPECT_EQ(Arg("arg_max", ties, 1)[0], 2);
  EXPECT_EQ(Arg("arg_min", ties, 0)[0], 0);
  EXPECT_EQ(Arg("arg_min", ties, 1)[0], 3);
  const ReferenceTensor nans = Reals({4}, {9, kNaN, 2, kNaN});
  EXPECT_EQ(Arg("arg_max", nans, 0)[0], 1);
  EXPECT_EQ(Arg("arg_min", nans, 1)[0], 3);
}

TEST(ArgReduction, InTheMiddle) {
  const auto y = RunText(R"(graph @g(%x: f32[2, 3, 2]) {
    %y = arg_max(%x) {axes = [1], keepdims = 1, select_last_index = 0} : i64[2, 1, 2]
    return %y })",
                         {Reals({2, 3, 2}, {1, 9, 2, 8, 3, 7, 6, 0, 5, 1, 4, 2})})[0];
  EXPECT_EQ(y.ints, (std::vector<int64_t>{2, 0, 0, 2}));
}

TEST(Reduction, Errors) {
  EXPECT_NE(ErrorOfText(Text("reduce_sum", "bool[2]", "[0]", "bool[]"))
                .find("reduce_sum takes numbers, found bool"),
            std::string::npos);
  EXPECT_NE(ErrorOfText(Text("reduce_max", "f32[2]", "[1]", "f32[]"))
                .find("axis is 1, but the rank is 1"),
            std::string::npos);
  EXPECT_NE(ErrorOfText(Text("reduce_max", "f32[2, 2]", "[1, 0]", "f32[]"))
                .find("axes are not in ascending order"),
            std::string::npos);
}

}  // namespace
}  // namespace fusec
