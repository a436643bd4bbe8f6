#include "runtime/src/artifact/dim_expression.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "compiler/index/expr.h"

namespace fusec::runtime {
namespace {

const std::vector<std::string> kSymbols = {"batch", "item_batch.1"};

StatusOr<int64_t> Evaluate(const std::string& text, int64_t batch = 5, int64_t items = 7) {
  FUSEC_RT_ASSIGN(const auto dim, DimExpression::Parse(text, kSymbols));
  return dim.Evaluate(std::vector<int64_t>{batch, items});
}

TEST(DimExpressionTest, Evaluates) {
  EXPECT_EQ(*Evaluate("13"), 13);
  EXPECT_EQ(*Evaluate("batch*27 + 351"), 5 * 27 + 351);
  EXPECT_EQ(*Evaluate("-batch*2 - (item_batch.1 - 3)*-2"), -10 + 8);
  EXPECT_EQ(*Evaluate("floordiv(0 - batch, 2) * mod(0 - batch, 3)"), -3 * 1);
  EXPECT_EQ(*Evaluate("max(min(batch, 3), item_batch.1) - - 1"), 8);
  EXPECT_EQ(*Evaluate("mod(batch, -3)"), -1);
  EXPECT_EQ(*Evaluate("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(*Evaluate("mod(-9223372036854775808, -1)"), 0);
}

TEST(DimExpressionTest, AgreesWithTheCompiler) {
  for (const char* text : {"batch*27 + 351", "floordiv(batch*3 - 20, 4)", "mod(7 - 3*batch, 5)",
                           "min(batch, item_batch.1)*max(2, batch) - 1"}) {
    const auto expr = Expr::Parse(text);
    ASSERT_TRUE(expr) << text;
    for (int64_t batch = 0; batch < 20; ++batch) {
      EXPECT_EQ(*Evaluate(expr->ToString(), batch),
                *expr->Evaluate({{"batch", batch}, {"item_batch.1", 7}}))
          << expr->ToString();
    }
  }
}

TEST(DimExpressionTest, RefusesBadText) {
  for (const char* text : {"", "batch +", "(batch", "batch batch", "floordiv(batch)", "pow(2, 3)",
                           "1.5", "9223372036854775808", "batch*)", "mod(1, 2, 3)", "*3"}) {
    const auto value = Evaluate(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, FUSEC_BAD_ARTIFACT);
    EXPECT_NE(value.error().message.find(text), std::string::npos);
  }
  EXPECT_EQ(Evaluate("rows*2").error().message,
            "bad dim expression \"rows*2\": unknown symbol \"rows\"");
  EXPECT_FALSE(Evaluate(std::string(100000, '(')));
  EXPECT_FALSE(Evaluate(std::string(100000, '-') + "1"));
  std::string deep = "1";
  for (int i = 0; i < 70; ++i) deep = "1 + (" + deep + ")";
  EXPECT_FALSE(Evaluate(deep));
}

TEST(DimExpressionTest, ChecksArithmetic) {
  EXPECT_EQ(Evaluate("batch*batch", INT64_MAX).error().message,
            "the dim batch*batch does not fit in 64 bits");
  EXPECT_FALSE(Evaluate("floordiv(batch, 0 - 1)", INT64_MIN));
  EXPECT_FALSE(Evaluate("batch + 1", INT64_MAX));
  EXPECT_FALSE(Evaluate("batch - 1", INT64_MIN));
  EXPECT_EQ(Evaluate("mod(1, batch)", 0).error().message,
            "division by zero in the dim mod(1, batch)");
}

TEST(DimExpressionTest, KnowsItsSymbols) {
  EXPECT_EQ(DimExpression::Parse("item_batch.1", kSymbols)->AsSymbol(), 1);
  EXPECT_EQ(DimExpression::Parse("batch*1", kSymbols)->AsSymbol(), -1);
  EXPECT_EQ(DimExpression::Parse("item_batch.1*batch + batch", kSymbols)->Symbols(),
            (std::vector<int>{1, 0}));
  EXPECT_TRUE(DimExpression::Parse("3*4", kSymbols)->IsConstant());
}

}  // namespace
}  // namespace fusec::runtime
