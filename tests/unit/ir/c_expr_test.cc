#include "compiler/ir/c_expr.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "compiler/ir/code_tokens.h"

namespace fusec {
namespace {

TEST(CExpr, PrintsWhatWasParsed) {
  for (const char* text : {
           "row",
           "Shape::kThreads",
           "1e-05f",
           "-3LL",
           "0x7f800000",
           "a + b - c * d",
           "a - (b - c)",
           "(a + b) * c",
           "a * b * c",
           "(a / b) * c",
           "a * b / c",
           "(a * b) % c",
           "a / (b * c)",
           "(a % b + b) % b",
           "-a + b",
           "a + (-b)",
           "a * (-1.5f)",
           "a == -b",
           "a < -b ? a + b : a > b ? a - b : 0.0f",
           "(a ? b : c) ? d : e",
           "x * (a < b ? a : b)",
           "a || (b && c) || !d",
           "a && b && c",
           "(a || b) && c",
           "!(a > b)",
           "!IsAbove(a, b)",
           "-(-a)",
           "a & (b == c)",
           "(a + b) << c",
           "(float)x / (double)(a + b)",
           "(long long)blockIdx.x * kRows",
           "(float)(double)x",
           "x[row * kColumns + column]",
           "memory.tiles[(tile - 1) % 2]",
           "next.keys.at(row, vector * kWords)",
           "sums.at[lane]",
           "p->next.at[0]",
           "LoadVector<kLanes>(x + row * kColumns)",
           "CopyAsync<kBytes, false>(a, inside ? b : c, true)",
           "reinterpret_cast<Shape::Memory&>(shared_memory)",
           "*static_cast<float*>(arguments[0])",
           "sizeof(unsigned long long)",
           "Divide<long long>(total, count)",
           "Multiply<Arithmetic::kTf32, kLines>({left, kPitch, kPlaces}, {right, 1, 2}, 1)",
           "LargerOf::Combine(total, element)",
           "a < b",
           "f()",
           "(a + b).at",
       }) {
    EXPECT_EQ(CExpr::Parse(text).ToString(), text);
  }
}

TEST(CExpr, LeavesOutParenthesesThatSayNothing) {
  const auto print = [](const char* text) { return CExpr::Parse(text).ToString(); };
  EXPECT_EQ(print("(a * b) + c"), "a * b + c");
  EXPECT_EQ(print("((a))"), "a");
  EXPECT_EQ(print("f((-1))"), "f(-1)");
  EXPECT_EQ(print("(a + b) + c"), "a + b + c");
  EXPECT_EQ(print("a + (b + c)"), "a + (b + c)") << "floats are added in this order";
}

TEST(CExpr, SaysInParenthesesWhatIsDividedFirst) {
  EXPECT_EQ(CExpr("a / b * c").ToString(), "(a / b) * c");
  EXPECT_EQ(CExpr("a % b / c").ToString(), "(a % b) / c");
  EXPECT_EQ(CExpr("(a * b) / c").ToString(), "a * b / c");
}

TEST(CExpr, IsBuiltByOperators) {
  const std::string row = "row";
  const CExpr lanes = "kLanes";
  EXPECT_EQ((row * lanes + 1).ToString(), "row * kLanes + 1");
  EXPECT_EQ(("threadIdx.x" % lanes).ToString(), "threadIdx.x % kLanes");
  EXPECT_EQ(Min(row * lanes, CExpr("rows") - 1).ToString(), "min(row * kLanes, rows - 1)");
  EXPECT_EQ(Call(Template("Load", {lanes}), {"x"}).Dot("at")["lane"].ToString(),
            "Load<kLanes>(x).at[lane]");
  EXPECT_EQ(Cast("long long", row + lanes).ToString(), "(long long)(row + kLanes)");
  EXPECT_EQ(And(CExpr(), row < lanes).ToString(), "row < kLanes");
  EXPECT_EQ(And("a", And("b", "c")).ToString(), "a && b && c");
  EXPECT_EQ((CExpr("x") + -5).ToString(), "x + (-5)");
  EXPECT_EQ(CExpr(std::numeric_limits<int64_t>::min() + 1).ToString(), "-9223372036854775807");
  EXPECT_EQ(Call("f", {List({"a", 1})}).ToString(), "f({a, 1})");
}

TEST(CExpr, KnowsItsNames) {
  std::set<std::string> names;
  CExpr("Shape::Load<kLanes>(x + row * 4, y.at[lane], 1e5f)").ForEachName([&](auto word) {
    names.emplace(word);
  });
  EXPECT_EQ(names, (std::set<std::string>{"Shape", "Load", "kLanes", "x", "row", "y", "lane"}));
  EXPECT_FALSE(CExpr("x.row").Mentions("row")) << "a member";
  EXPECT_EQ(CExpr("x.row + row")
                .Renamed([](std::string_view word) { return word == "row" ? "$1" : word; })
                .ToString(),
            "x.row + $1");
}

TEST(CExpr, ComparesTrees) {
  EXPECT_TRUE(CExpr("a + (b * c)").Is("a + b * c"));
  EXPECT_FALSE(CExpr("a + b + c").Is("a + (b + c)"));
  EXPECT_FALSE(CExpr("a").Is(CExpr()));
  EXPECT_TRUE(CExpr().Is(CExpr()));
}

TEST(CExpr, SaysWhereOperationsBeginAndEnd) {
  CodeTokens line;
  line.Add("f(a + b - c, d)");
  const std::vector<CodeToken>& tokens = line.tokens();
  ASSERT_EQ(tokens.size(), 10u);
  EXPECT_EQ(tokens[2].text, "a");
  EXPECT_EQ(tokens[2].starts, (std::vector<int>{CodeToken::kComma, CodeToken::kSum}));
  EXPECT_EQ(tokens[3].precedence, CodeToken::kSum);
  EXPECT_FALSE(tokens[3].has_two_operands);
  EXPECT_EQ(tokens[6].ends, 1);
  EXPECT_EQ(tokens[8].ends, 1);
}

}  // namespace
}  // namespace fusec
