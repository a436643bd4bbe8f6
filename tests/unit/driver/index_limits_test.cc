#include "compiler/driver/index_limits.h"

#include <gtest/gtest.h>

#include "compiler/driver/compare.h"

namespace fusec {
namespace {

std::string LimitsOf(const std::string& text) {
  const auto graph = Parse(text);
  if (!graph) return graph.error().message;
  std::string limits;
  for (const auto& [name, limit] : IndexLimits(**graph)) {
    limits += (limits.empty() ? "" : ", ") + name + " " + limit.ToString();
  }
  return limits;
}

TEST(IndexLimits, OffsetsIntoOneStackedTableLeaveLess) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i32[batch, 3]) symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[50, 4]
  %offsets = constant() [0, 20, 30] : i64[3]
  %wide = cast(%ids) {to = i64} : i64[batch, 3]
  %row = add(%offsets, %wide) : i64[batch, 3]
  %flat = reshape(%row) {shape = dims[batch*3]} : i64[batch*3]
  %y = gather(%table, %flat) {axis = 0} : f32[batch*3, 4]
  return %y
})"),
            "ids 20");
}

TEST(IndexLimits, TheSmallestTableDecidesAndRemaindersDoNot) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i64[batch], %hashed "hashed": i64[batch],
    %users "users": f32[requests, 2])
    symbols(batch in 1..64, requests in 1..64) {
  %table = constant() payload "aa" : f32[50, 2]
  %seven = constant() [7] : i64[]
  %hash = mod(%hashed, %seven) {fmod = 0} : i64[batch]
  %a = gather(%table, %ids) {axis = 0} : f32[batch, 2]
  %b = gather(%users, %ids) {axis = 0} : f32[batch, 2]
  %c = gather(%table, %hash) {axis = 0} : f32[batch, 2]
  return %a, %b, %c
})"),
            "ids min(requests, 50)");
}

TEST(IndexLimits, AMaskThatIsCountedWithIsZeroOrOne) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%mask "mask": i64[batch, 3], %age "age": i64[batch]) symbols(batch in 1..64) {
  %m = reshape(%mask) {shape = dims[batch, 1, 3]} : i64[batch, 1, 3]
  %a = cast(%m) {to = f32} : f32[batch, 1, 3]
  %b = cast(%age) {to = f32} : f32[batch]
  return %a, %b
})"),
            "mask 2");
}

TEST(CoarsestDtype, IsThatOfTheRoughestStepOnTheWay) {
  const auto graph = Parse(R"(graph @g(%x: f32[4], %z: f32[4]) {
  %half = cast(%x) {to = f16} : f16[4]
  %relu = relu(%half) : f16[4]
  %y = cast(%relu) {to = f32} : f32[4]
  %w = neg(%z) : f32[4]
  %i = cast(%y) {to = i64} : i64[4]
  return %y, %w, %i
})");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(CoarsestDtype((*graph)->outputs[0]), Dtype::kF16);
  EXPECT_EQ(CoarsestDtype((*graph)->outputs[1]), Dtype::kF32);
  EXPECT_EQ(CoarsestDtype((*graph)->outputs[2]), Dtype::kI64);
}

}  // namespace
}  // namespace fusec
