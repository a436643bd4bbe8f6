#include "compiler/reference/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/reference/interpreter.h"

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

// How far the answer `found` may be from that of a graph of x, which is 1/3.
Comparison JudgedByConditioning(const char* body, double found) {
  const auto graph = Parse(std::string("graph @g(%x: f32[2]) {\n") + body + "  return %y\n}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  const std::vector<ReferenceTensor> inputs = {
      ReferenceTensor::FromData(TensorData::From<double>(Dtype::kF32, {2}, {1.0 / 3, 1.0 / 3}))};
  const auto expected = Interpret(**graph, inputs);
  std::vector<ReferenceTensor> rounded;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    rounded.push_back(InterpretRounded(**graph, inputs, seed)->front());
  }
  Comparison c = Compare("y", TensorData::From<double>(Dtype::kF32, {2}, {found, found}),
                         expected->front(), {1e-5, "test"});
  JudgeByConditioning(expected->front(), rounded, c);
  return c;
}

TEST(Compare, WhatRoundingExplainsIsIllConditioned) {
  // f32 has no digits left of 1/3 beside 1e8, so 0 and 8 are as right as any answer.
  const char cancels[] =
      "  %big = constant() [100000000.0] : f32[]\n"
      "  %s = add(%x, %big) : f32[2]\n"
      "  %y = sub(%s, %big) : f32[2]\n";
  const Comparison zero = JudgedByConditioning(cancels, 0);
  EXPECT_TRUE(zero.pass);
  EXPECT_GT(zero.moves, 0.5);
  EXPECT_EQ(zero.note.substr(0, 16), "ill-conditioned:");
  EXPECT_FALSE(JudgedByConditioning(cancels, 1e6).pass);
  // A sum that keeps its digits excuses nothing.
  const char keeps[] =
      "  %one = constant() [1.0] : f32[]\n"
      "  %y = add(%x, %one) : f32[2]\n";
  EXPECT_TRUE(JudgedByConditioning(keeps, 4.0 / 3).pass);
  EXPECT_FALSE(JudgedByConditioning(keeps, 4.0 / 3 + 1e-3).pass);
}

}  // namespace
}  // namespace fusec
