#include "compiler/reference/compare.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fusec {
namespace {

ReferenceTensor Reference(Dtype dtype, std::vector<int64_t> dims, ArrayRef<double> values) {
  ReferenceTensor tensor(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(dtype))
      tensor.reals[i] = values[i];
    else
      tensor.ints[i] = static_cast<int64_t>(values[i]);
  }
  return tensor;
}

Comparison CompareFloats(ArrayRef<double> found, ArrayRef<double> expected) {
  const auto size = static_cast<int64_t>(found.size());
  return Compare("y", TensorData::From<double>(Dtype::kF32, {size}, found),
                 Reference(Dtype::kF32, {size}, expected), {1e-5, "test"});
}

TEST(Compare, MeasuresDistance) {
  const Comparison c = CompareFloats({3, 4.5}, {3, 4});
  EXPECT_DOUBLE_EQ(c.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(c.max_rel, 0.125);
  EXPECT_DOUBLE_EQ(c.rel_l2, 0.1);
  EXPECT_FALSE(c.pass);
  EXPECT_TRUE(CompareFloats({3, 4.00001}, {3, 4}).pass);
  EXPECT_TRUE(CompareFloats({}, {}).pass);
  EXPECT_TRUE(CompareFloats({0}, {-0.0}).pass);
  EXPECT_FALSE(CompareFloats({1e-3}, {0}).pass);  // absolute where the reference is all zeros
}

TEST(Compare, NanAndInfinityMustMeetTheirLike) {
  EXPECT_TRUE(CompareFloats({NAN, INFINITY, -INFINITY}, {NAN, INFINITY, -INFINITY}).pass);
  EXPECT_TRUE(CompareFloats({INFINITY}, {1e39}).pass);  // overflows f32
  for (const double wrong : {1.0, HUGE_VAL, -HUGE_VAL}) {
    const Comparison c = CompareFloats({wrong}, {NAN});
    EXPECT_FALSE(c.pass);
    EXPECT_EQ(c.misplaced, 1);
  }
  EXPECT_FALSE(CompareFloats({INFINITY}, {-INFINITY}).pass);
  EXPECT_FALSE(CompareFloats({NAN}, {2}).pass);
}

TEST(Compare, IntegersAreExactBeyondDoubles) {
  const int64_t big = (int64_t{1} << 53) + 1;
  const auto found = TensorData::From<int64_t>(Dtype::kI64, {1}, {big});
  ReferenceTensor expected(Dtype::kI64, {1});
  expected.ints = {big - 1};
  const Tolerance exact = ToleranceOf(Dtype::kI64, "highest");
  EXPECT_EQ(exact.relative_l2, 0);
  EXPECT_FALSE(Compare("y", found, expected, exact).pass);
  expected.ints = {big};
  EXPECT_TRUE(Compare("y", found, expected, exact).pass);
}

TEST(Compare, DroppedDimsOfOneAreANote) {
  const auto found = TensorData::From<double>(Dtype::kF32, {1, 2, 1}, {1, 2});
  const Comparison same = Compare("y", found, Reference(Dtype::kF32, {2}, {1, 2}), {1e-5, "test"});
  EXPECT_TRUE(same.pass);
  EXPECT_EQ(same.note, "shape [1, 2, 1], reference [2]: equal except for dims of 1");
  const Comparison other =
      Compare("y", found, Reference(Dtype::kF32, {3}, {1, 2, 3}), {1e-5, "test"});
  EXPECT_FALSE(other.pass);
  EXPECT_EQ(other.note, "is f32[1, 2, 1], expected f32[3]");
  EXPECT_FALSE(Compare("y", found, Reference(Dtype::kF64, {1, 2, 1}, {1, 2}), {1e-5, "test"}).pass);
}

}  // namespace
}  // namespace fusec
