#include "compiler/reference/conditioning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

// Judges the answer `found` of a graph that computes %y from %x.
Comparison Judged(const char* body, const std::vector<double>& x, const std::vector<double>& found,
                  Dtype dtype = Dtype::kF32) {
  const auto graph = Parse(std::string("graph @g(%x: f32[2]) {\n") + body + "  return %y\n}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  const std::vector<ReferenceTensor> inputs = {
      ReferenceTensor::FromData(TensorData::From<double>(Dtype::kF32, {2}, x))};
  const auto expected = Interpret(**graph, inputs);
  EXPECT_TRUE(expected) << (expected ? "" : expected.error().message);
  OutputJudge judge(**graph, inputs, *expected);
  return judge.Judge(0, "y",
                     TensorData::From<double>(dtype, {static_cast<int64_t>(found.size())}, found),
                     {1e-5, "test"});
}

TEST(OutputJudge, WhatRoundingExplainsIsIllConditioned) {
  // In f32, adding 1/3 to 1e8 loses all digits of 1/3, so 0 and 8 are both acceptable answers.
  const char cancels[] =
      "  %big = constant() [100000000.0] : f32[]\n"
      "  %s = add(%x, %big) : f32[2]\n"
      "  %y = sub(%s, %big) : f32[2]\n";
  const std::vector<double> third = {1.0 / 3, 1.0 / 3};
  const Comparison zero = Judged(cancels, third, {0, 0});
  EXPECT_TRUE(zero.pass);
  EXPECT_GT(zero.moves, 0.5);
  EXPECT_EQ(zero.unjudged, 2);
  EXPECT_EQ(zero.note.substr(0, 16), "ill-conditioned:");
  EXPECT_FALSE(Judged(cancels, third, {1e6, 1e6}).pass);
  // A sum that does not lose digits excuses no difference.
  const char keeps[] =
      "  %one = constant() [1.0] : f32[]\n"
      "  %y = add(%x, %one) : f32[2]\n";
  EXPECT_TRUE(Judged(keeps, third, {4.0 / 3, 4.0 / 3}).pass);
  EXPECT_FALSE(Judged(keeps, third, {4.0 / 3 + 1e-3, 4.0 / 3}).pass);
}

// The input of a step function may be rounded to either side of the step; that excuses no other element.
TEST(OutputJudge, AStepIsJudgedElementByElement) {
  const char floors[] = "  %y = floor(%x) : f32[2]\n";
  const Comparison on_step = Judged(floors, {2, 5.3}, {1, 5});
  EXPECT_TRUE(on_step.pass);
  EXPECT_EQ(on_step.unjudged, 1);
  EXPECT_FALSE(Judged(floors, {2, 5.3}, {2, 4}).pass);
  EXPECT_FALSE(Judged(floors, {2, 5.3}, {1, 4}).pass);
}

TEST(OutputJudge, IntegersMayJumpWhereTheReferenceDoes) {
  const char casts[] = "  %y = cast(%x) {to = i64} : i64[2]\n";
  const Comparison on_step = Judged(casts, {2, 5.3}, {1, 5}, Dtype::kI64);
  EXPECT_TRUE(on_step.pass);
  EXPECT_EQ(on_step.unjudged, 1);
  EXPECT_FALSE(Judged(casts, {2.5, 5.3}, {1, 5}, Dtype::kI64).pass);
}

// Numbers just below a tie of rounding: each draw moves a few of them to the next whole number, and seldom the same ones.
TEST(OutputJudge, AsManyCodesMayJumpAsInADraw) {
  constexpr int kCount = 1000;
  std::string body;
  for (int i = 0; i < 8; ++i) {
    body += "  %f" + std::to_string(i) + " = constant() [1.1] : f32[]\n  %x" + std::to_string(i + 1) +
            " = mul(%x" + std::to_string(i) + ", %f" + std::to_string(i) + ") : f32[1000]\n";
  }
  const auto graph =
      Parse("graph @g(%x0: f32[1000]) {\n" + body + "  %y = round(%x8) : f32[1000]\n  return %y\n}\n");
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<double> x, right;
  for (int i = 0; i < kCount; ++i) {
    x.push_back((64.5 + i % 60 - 4 * 0x1p-17) / std::pow(static_cast<double>(1.1f), 8));
    right.push_back(64 + i % 60);
  }
  const std::vector<ReferenceTensor> inputs = {
      ReferenceTensor::FromData(TensorData::From<double>(Dtype::kF32, {kCount}, std::move(x)))};
  const auto expected = Interpret(**graph, inputs);
  ASSERT_TRUE(expected);
  const auto passes = [&](int jumps, double by) {
    std::vector<double> found = right;
    for (int i = 0; i < jumps; ++i) found[i] += by;
    OutputJudge judge(**graph, inputs, *expected);
    return judge.Judge(0, "y", TensorData::From<double>(Dtype::kF32, {kCount}, std::move(found)), {1e-5, "test"}).pass;
  };
  EXPECT_TRUE(passes(0, 0));
  EXPECT_TRUE(passes(5, 1));
  EXPECT_FALSE(passes(5, 2));
  EXPECT_FALSE(passes(700, 1));
}

TEST(OutputJudge, APoleMayBeOnEitherSide) {
  const char divides[] =
      "  %two = constant() [2.0] : f32[]\n"
      "  %d = sub(%x, %two) : f32[2]\n"
      "  %y = reciprocal(%d) : f32[2]\n";
  EXPECT_TRUE(Judged(divides, {2, 4}, {4194304, 0.5}).pass);  // 1 / 2^-22
  EXPECT_FALSE(Judged(divides, {2, 4}, {INFINITY, 0.25}).pass);
  EXPECT_FALSE(Judged(divides, {3, 4}, {INFINITY, 0.5}).pass);
}

// A sum may begin with its first term, -0 here, or with 0.
TEST(OutputJudge, AZeroThatASumGivesHasNoSign) {
  const char sums[] =
      "  %s = reduce_sum(%x) {axes = [0], keepdims = 1} : f32[1]\n"
      "  %y = reciprocal(%s) : f32[1]\n";
  const Comparison other_sign = Judged(sums, {0, 0}, {-INFINITY});
  EXPECT_TRUE(other_sign.pass);
  EXPECT_EQ(other_sign.unjudged, 1);
  EXPECT_FALSE(Judged("  %y = reciprocal(%x) : f32[2]\n", {0, 1}, {-INFINITY, 1}).pass);
}

// As many elements as the smaller of the two sizes.
Comparison JudgedSize(const std::vector<double>& x, std::vector<double> found) {
  const auto graph = Parse(
      "graph @g(%x: f32[2]) {\n"
      "  %y = abs(%x) : f32[2]\n"
      "  %m = reduce_min(%x) {axes = [0], keepdims = 1} : f32[1]\n"
      "  %n = cast(%m) {to = i64} : i64[1]\n"
      "  return %y \"y\", %n \"sizes\" sizes(0 axis 0)\n"
      "}\n");
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  const std::vector<ReferenceTensor> inputs = {
      ReferenceTensor::FromData(TensorData::From<double>(Dtype::kF32, {2}, x))};
  const auto expected = Interpret(**graph, inputs);
  EXPECT_TRUE(expected) << (expected ? "" : expected.error().message);
  OutputJudge judge(**graph, inputs, *expected);
  return judge.Judge(
      0, "y", TensorData::From<double>(Dtype::kF32, {static_cast<int64_t>(found.size())}, found),
      {1e-5, "test"});
}

TEST(OutputJudge, ASizeMayMoveWhereTheReferenceDoes) {
  EXPECT_TRUE(JudgedSize({1.5, 2}, {1.5}).pass);
  EXPECT_FALSE(JudgedSize({1.5, 2}, {}).pass);
  const Comparison on_step = JudgedSize({1, 2}, {});
  EXPECT_TRUE(on_step.pass);
  EXPECT_EQ(on_step.unjudged, 1);
}

}  // namespace
}  // namespace fusec
