#include "compiler/region/index_limits.h"

#include <gtest/gtest.h>

#include "compiler/reference/compare.h"

namespace fusec {
namespace {

std::string LimitsOf(const std::string& text) {
  const auto graph = Parse(text);
  if (!graph) return graph.error().message;
  std::string text_of_all;
  for (const auto& [name, found] : FindIndexLimits(**graph)) {
    text_of_all += (text_of_all.empty() ? "" : ", ") + name;
    for (const Expr& limit : found.limits) text_of_all += " " + limit.ToString();
    if (found.limits.size() > 1) text_of_all += " along " + std::to_string(found.axis);
  }
  return text_of_all;
}

TEST(IndexLimits, OffsetsSayWhereTheTablesOfOneBegin) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i32[batch, 3]) symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[50, 4]
  %offsets = constant() [0, 20, 30] : i64[3]
  %wide = cast(%ids) {to = i64} : i64[batch, 3]
  %row = add(%offsets, %wide) : i64[batch, 3]
  %flat = reshape(%row) {shape = dims[batch*3]} : i64[batch*3]
  %y = gather(%table, %flat) {axis = 0} : f32[batch*3, 4]
  return %y
})"),
            "ids 20 10 20 along 1");
}

// Offsets that do not ascend: an id may reach all rows from its offset to the end of the table.
TEST(IndexLimits, OffsetsIntoOneStackedTableLeaveLess) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i64[3, batch]) symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[50, 4]
  %offsets = constant() [20, 0, 30] : i64[3, 1]
  %row = add(%ids, %offsets) : i64[3, batch]
  %y = gather(%table, %row) {axis = 0} : f32[3, batch, 4]
  return %y
})"),
            "ids 30 50 20 along 0");
}

TEST(IndexLimits, EveryColumnHasThatOfItsTable) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i64[batch, 5]) symbols(batch in 1..64) {
  %small = constant() payload "aa" : f32[7, 4]
  %large = constant() payload "bb" : f32[900, 4]
  %one = constant() [1] : i64[]
  %last = constant() [-1] : i64[]
  %hundred = constant() [100] : i64[]
  %turned = transpose(%ids) {perm = [1, 0]} : i64[5, batch]
  %row = slice(%turned) {starts = dims[0, 0], steps = [1, 1], shape = dims[1, batch]} : i64[1, batch]
  %first = reshape(%row) {shape = dims[batch]} : i64[batch]
  %second = gather(%ids, %one) {axis = 1} : i64[batch]
  %fifth = gather(%turned, %last) {axis = 0} : i64[batch]
  %pair = slice(%ids) {starts = dims[0, 2], steps = [1, 1], shape = dims[batch, 2]} : i64[batch, 2]
  %hash = mod(%fifth, %hundred) {fmod = 0} : i64[batch]
  %a = gather(%small, %first) {axis = 0} : f32[batch, 4]
  %b = gather(%large, %second) {axis = 0} : f32[batch, 4]
  %c = gather(%large, %hash) {axis = 0} : f32[batch, 4]
  %d = gather(%small, %second) {axis = 0} : f32[batch, 4]
  return %a, %b, %c, %pair
})"),
            "ids 7 7 1001 1001 4611686018427387904 along 1");
}

// Concatenated columns are separated again; a sum over the positions of a bag has one limit for all of them.
TEST(IndexLimits, ColumnsGoThroughWhatIsDoneToThemTogether) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%left "left": i32[batch, 2], %right "right": i32[batch, 1], %bag "bag": i64[batch, 4])
    symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[60, 4]
  %offsets = constant() [0, 10, 40] : i64[3]
  %factors = constant() [1, 2, 3, 4] : i64[4]
  %joined = concat(%left, %right) {axis = 1} : i32[batch, 3]
  %wide = cast(%joined) {to = i64} : i64[batch, 3]
  %deep = reshape(%wide) {shape = dims[batch, 1, 3]} : i64[batch, 1, 3]
  %row = add(%deep, %offsets) : i64[batch, 1, 3]
  %scaled = mul(%bag, %factors) : i64[batch, 4]
  %a = gather(%table, %row) {axis = 0} : f32[batch, 1, 3, 4]
  %b = gather(%table, %scaled) {axis = 0} : f32[batch, 4, 4]
  return %a, %b
})"),
            "bag 60 30 20 15 along 1, left 10 30 along 1, right 20");
}

TEST(IndexLimits, TheSmallestTableDecidesAndRemaindersTakeAll) {
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
            "hashed 4611686018427387904, ids min(requests, 50)");
}

// For any view: its element map gives the column that each place of the result reads.
TEST(IndexLimits, RepeatedAndPaddedColumnsKeepTheirLimits) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%ids "ids": i64[batch, 2], %more "more": i64[batch, 2]) symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[60, 4]
  %offsets = constant() [0, 5, 20, 25] : i64[4]
  %zero = constant() [0] : i64[]
  %twice = tile(%ids) {repeats = [1, 2]} : i64[batch, 4]
  %row = add(%twice, %offsets) : i64[batch, 4]
  %wide = pad(%more, %zero) {pads = dims[0, 0, 0, 1], mode = "constant"} : i64[batch, 3]
  %a = gather(%table, %row) {axis = 0} : f32[batch, 4, 4]
  %b = gather(%table, %wide) {axis = 0} : f32[batch, 3, 4]
  return %a, %b
})"),
            "ids 5 15 along 1, more 60");
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

// A matrix of floats as in deepctr-torch: ids in some columns, features in the others.
TEST(IndexLimits, ColumnsOfFloatsThatBecomeIntegersAreIds) {
  EXPECT_EQ(LimitsOf(R"(graph @g(%x "x": f32[batch, 4]) symbols(batch in 1..64) {
  %table = constant() payload "aa" : f32[30, 4]
  %ids = slice(%x) {starts = dims[0, 0], steps = [1, 1], shape = dims[batch, 1]} : f32[batch, 1]
  %features = slice(%x) {starts = dims[0, 1], steps = [1, 1], shape = dims[batch, 2]} : f32[batch, 2]
  %length = slice(%x) {starts = dims[0, 3], steps = [1, 1], shape = dims[batch, 1]} : f32[batch, 1]
  %row = cast(%ids) {to = i64} : i64[batch, 1]
  %y = gather(%table, %row) {axis = 0} : f32[batch, 1, 4]
  %sum = add(%features, %length) : f32[batch, 2]
  %count = cast(%length) {to = i64} : i64[batch, 1]
  return %y, %sum, %count
})"),
            "x 30 0 0 1001 along 1");
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

TEST(CoarsestDtype, RowsOfAHalfTableAreExact) {
  const auto graph = Parse(R"(graph @g(%ids: i64[2]) {
  %table = constant() [1, 2, 3, 4] : f16[2, 2]
  %half = gather(%table, %ids) {axis = 0} : f16[2, 2]
  %y = cast(%half) {to = f32} : f32[2, 2]
  %twice = add(%half, %half) : f16[2, 2]
  %z = cast(%twice) {to = f32} : f32[2, 2]
  return %y, %z
})");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(CoarsestDtype((*graph)->outputs[0]), Dtype::kF32);
  EXPECT_EQ(CoarsestDtype((*graph)->outputs[1]), Dtype::kF16);
}

}  // namespace
}  // namespace fusec
