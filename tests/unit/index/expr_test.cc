#include "compiler/index/expr.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace fusec {
namespace {

Expr E(const std::string& text) {
  Result<Expr> expr = Expr::Parse(text);
  EXPECT_TRUE(expr) << (expr ? "" : expr.error().message);
  return expr.value_or(Expr());
}

// batch 1..4096, seq 0..512, past 0..100, total = past + seq, loop variables within them.
Ranges TestRanges() {
  Ranges ranges;
  ranges.Set("batch", 1, 4096);
  ranges.Set("seq", 0, 512);
  ranges.Set("past", 0, 100);
  ranges.Set("i", 0, E("batch - 1"));
  ranges.Set("s", 0, E("seq - 1"));
  ranges.Set("c", 0, 26);
  ranges.Set("bit", 0, 1);
  ranges.Set("flat", 0, E("batch*seq*64 - 1"));
  ranges.Set("cache", 0, E("batch*past*8 + batch*seq*8 - 1"));
  ranges.Set("n", 0, 23);
  return ranges;
}

std::string Divide(const std::string& a, const std::string& b) {
  return FloorDiv(E(a), E(b), TestRanges()).ToString();
}
std::string Modulo(const std::string& a, const std::string& b) {
  return Mod(E(a), E(b), TestRanges()).ToString();
}
bool NonNegative(const std::string& text) { return TestRanges().ProvenNonNegative(E(text)); }

TEST(Expr, ReadsQuotientsAsCommentsWriteThem) {
  EXPECT_EQ(Expr::Parse("(batch + 15) / 16 * 2")->ToString(),
            Expr::Parse("floordiv(batch + 15, 16) * 2")->ToString());
  EXPECT_EQ(Expr::Parse("100 / 8 / 2")->ToString(), "6");
  EXPECT_FALSE(Expr::Parse("batch /"));
}

TEST(Expr, PrintsCanonically) {
  EXPECT_EQ(E("351 + 27*batch").ToString(), "batch*27 + 351");
  EXPECT_EQ(E("3 - batch").ToString(), "-batch + 3");
  EXPECT_EQ(E("(batch + 1)*(seq - 1) + 1").ToString(), "-batch + batch*seq + seq");
  EXPECT_EQ(E("batch - batch").ToString(), "0");
  EXPECT_EQ(E("floordiv(batch, 4)").ToString(), "floordiv(batch, 4)");
  EXPECT_EQ(E("seq*batch"), E("batch*seq"));
  EXPECT_EQ(E("--3").AsConstant(), 3);
  EXPECT_EQ(E("-9223372036854775808").ToString(), "-9223372036854775808");
  EXPECT_EQ(E("min(4, 3) + max(4, 3)*10").AsConstant(), 43);
  EXPECT_EQ(Expr::Symbol("batch").AsSymbol(), "batch");
  EXPECT_FALSE(E("batch + 1").AsSymbol());
  std::vector<std::string> names;
  E("s + floordiv(i + s, batch)").CollectSymbols(names);
  EXPECT_EQ(names, (std::vector<std::string>{"i", "s", "batch"}));
}

TEST(Expr, SaturatesInsteadOfWrapping) {
  EXPECT_EQ((Expr(INT64_MAX) + 1).AsConstant(), INT64_MAX);
  EXPECT_EQ((Expr(INT64_MIN) - 1).AsConstant(), INT64_MIN);
  EXPECT_EQ(Product({INT64_MAX, 4}).AsConstant(), INT64_MAX);
  EXPECT_EQ((E("batch") * INT64_MIN).ToString(), "-batch*9223372036854775807");
  EXPECT_EQ(Min(INT64_MAX, E("batch"), TestRanges()).ToString(), "batch");
  EXPECT_EQ(Max(INT64_MIN, E("batch - 9"), TestRanges()).ToString(), "batch - 9");
  EXPECT_EQ(FloorDiv(INT64_MIN, -1, Ranges()).AsConstant(), INT64_MAX);
  EXPECT_EQ(FloorDiv(INT64_MIN, -2, Ranges()).AsConstant(), INT64_C(1) << 62);
  EXPECT_FALSE(FloorDiv(INT64_MIN, E("batch - max(batch, 2)"), TestRanges()).AsConstant());
}

TEST(Expr, ParseErrorsNameTheColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "column 1: found the end, expected an integer, a name or \"(\""},
      {"2*(a + )", "column 8: found \")\", expected an integer, a name or \"(\""},
      {"a b", "column 3: found \"b\", expected \"+\", \"-\", \"*\" or the end"},
      {"mod(a)", "column 6: found \")\", expected \",\""},
      {"max(a, b", "column 9: found the end, expected \")\""},
      {"ceil(a, b)", "column 1: found function \"ceil\", expected floordiv, mod, min or max"},
      {"9223372036854775808", "column 1: integer 9223372036854775808 does not fit 64 bits"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Expr> expr = Expr::Parse(text);
    ASSERT_FALSE(expr) << text;
    EXPECT_EQ(expr.error().message, "expression \"" + std::string(text) + "\", " + message);
  }
  EXPECT_FALSE(Expr::Parse(std::string(100000, '(')));
}

TEST(Expr, Evaluates) {
  EXPECT_EQ(*E("a*3 - mod(a, 5) + floordiv(a, 5)").Evaluate({{"a", -7}}), -21 - 3 - 2);
  EXPECT_EQ(*E("mod(a, b)").Evaluate({{"a", 7}, {"b", -5}}), -3);
  EXPECT_EQ(*E("a*a*a").Evaluate({{"a", 0}}), 0);
  EXPECT_EQ(E("a").Evaluate({}).error().message, "symbol \"a\" has no value");
  EXPECT_EQ(E("mod(a, b)").Evaluate({{"a", 1}, {"b", 0}}).error().message,
            "mod(a, b) divides by zero");
  EXPECT_EQ(E("a*a").Evaluate({{"a", INT64_C(1) << 32}}).error().message, "a*a overflows 64 bits");
  EXPECT_FALSE(E("floordiv(a, b)").Evaluate({{"a", INT64_MIN}, {"b", -1}}));
  EXPECT_EQ(*E("mod(a, b)").Evaluate({{"a", INT64_MIN}, {"b", -1}}), 0);
}

TEST(FloorDiv, TakesOutWhatDivides) {
  EXPECT_EQ(Divide("17", "5"), "3");
  EXPECT_EQ(Divide("-17", "5"), "-4");
  EXPECT_EQ(Divide("17", "-5"), "-4");
  EXPECT_EQ(Divide("batch", "1"), "batch");
  EXPECT_EQ(Divide("batch*8 + 3", "4"), "batch*2");
  EXPECT_EQ(Divide("batch*16*c + batch*5", "batch*16"), "c");
  EXPECT_EQ(Divide("batch*c + i", "batch"), "c");
  EXPECT_EQ(Divide("i*27 + c", "27"), "i");
  EXPECT_EQ(Divide("c", "27"), "0");
  EXPECT_EQ(Divide("c", "16"), "floordiv(c, 16)");
  EXPECT_EQ(Divide("-1", "batch"), "-1");
  EXPECT_EQ(Divide("i*4 + c*4", "8"), "floordiv(c + i, 2)");
  EXPECT_EQ(Divide("i*4 + c*4 + bit*2 + 1", "8"), "floordiv(c + i, 2)");
  EXPECT_EQ(Divide("floordiv(c, 3)", "4"), "floordiv(c, 12)");
  EXPECT_EQ(Divide("floordiv(flat, 3)", "seq"), "floordiv(flat, seq*3)");
  EXPECT_EQ(Divide("mod(flat, 12)", "3"), "mod(floordiv(flat, 3), 4)");
  EXPECT_EQ(Divide("batch*past*3 + past*3 + c + batch*past + past", "batch + 1"),
            "floordiv(c, batch + 1) + past*4");
  EXPECT_EQ(Divide("batch", "0"), "floordiv(batch, 0)");
}

TEST(Mod, TakesOutWhatDivides) {
  EXPECT_EQ(Modulo("-17", "5"), "3");
  EXPECT_EQ(Modulo("17", "-5"), "-3");
  EXPECT_EQ(Modulo("batch", "1"), "0");
  EXPECT_EQ(Modulo("batch*c + i", "batch"), "i");
  EXPECT_EQ(Modulo("i*27 + c", "27"), "c");
  EXPECT_EQ(Modulo("c - 27", "27"), "c");
  EXPECT_EQ(Modulo("i*8 + 11", "8"), "3");
  EXPECT_EQ(Modulo("-1", "batch"), "batch - 1");
  EXPECT_EQ(Modulo("mod(flat, 32)", "8"), "mod(flat, 8)");
  EXPECT_EQ(Modulo("mod(flat, 32) + c", "8"), "mod(c + flat, 8)");
  EXPECT_EQ(Modulo("mod(flat, 8)", "32"), "mod(flat, 8)");
  EXPECT_EQ(Modulo("flat*8 + bit*4 + 3", "16"), "bit*4 + mod(flat, 2)*8 + 3");
}

TEST(MinMax, FoldWhereRangesDecide) {
  const Ranges ranges = TestRanges();
  EXPECT_EQ(Min(E("i"), E("batch"), ranges).ToString(), "i");
  EXPECT_EQ(Max(E("i"), E("batch"), ranges).ToString(), "batch");
  EXPECT_EQ(Max(E("seq"), 0, ranges).ToString(), "seq");
  EXPECT_EQ(Min(E("seq"), E("batch"), ranges).ToString(), "min(batch, seq)");
  EXPECT_EQ(Min(E("min(batch, seq)"), E("seq"), ranges).ToString(), "min(batch, seq)");
  EXPECT_EQ(CeilDiv(E("batch*4 + 1"), 4, ranges).ToString(), "batch + 1");
  EXPECT_EQ(CeilDiv(E("seq*batch"), E("batch"), ranges).ToString(), "seq");
  EXPECT_EQ(CeilDiv(7, -2, ranges).AsConstant(), -3);
}

TEST(Ranges, Intervals) {
  const Ranges ranges = TestRanges();
  const auto interval = [&](const std::string& text) {
    const Ranges::Interval found = ranges.IntervalOf(E(text));
    return std::pair(found.low, found.high);
  };
  EXPECT_EQ(interval("i*27 + c"), std::pair(INT64_C(0), INT64_C(4095 * 27 + 26)));
  EXPECT_EQ(interval("batch - seq"), std::pair(INT64_C(-511), INT64_C(4096)));
  EXPECT_EQ(interval("mod(c, 8) - floordiv(c, 8)"), std::pair(INT64_C(-3), INT64_C(7)));
  EXPECT_EQ(interval("max(c, 3)*min(c, 3)"), std::pair(INT64_C(0), INT64_C(78)));
  EXPECT_EQ(interval("unknown").first, -INT64_MAX / 4);
  EXPECT_EQ(interval("floordiv(unknown, 8) - 5").second, INT64_MAX / 4);
  EXPECT_EQ(interval("batch*batch*batch*batch*batch*batch").second, INT64_MAX / 4);
}

TEST(Ranges, Proofs) {
  EXPECT_TRUE(NonNegative("batch*27 - 1 - (i*27 + c)"));
  EXPECT_FALSE(NonNegative("batch*27 - 2 - (i*27 + c)"));
  EXPECT_TRUE(NonNegative("batch*seq - 1 - (i*seq + s)"));
  EXPECT_TRUE(NonNegative("batch*seq - 1 - (s*batch + i)"));
  EXPECT_FALSE(NonNegative("batch*seq - 1 - (i*batch + s)"));
  EXPECT_TRUE(NonNegative("batch*batch - batch"));
  EXPECT_TRUE(NonNegative("batch - 4*floordiv(batch, 4)"));
  EXPECT_TRUE(NonNegative("batch - 1 - mod(unknown, batch)"));
  EXPECT_TRUE(NonNegative("batch - 1 - floordiv(flat, seq*64)"));
  EXPECT_TRUE(NonNegative("max(batch, seq) - min(batch, seq)"));
  EXPECT_FALSE(NonNegative("batch - seq"));
  EXPECT_FALSE(NonNegative("unknown"));
}

TEST(SimplifySum, UndoesDivision) {
  const auto simplify = [](const std::string& text) {
    return SimplifySum(E(text), TestRanges()).ToString();
  };
  EXPECT_EQ(simplify("floordiv(c, 8)*8 + mod(c, 8)"), "c");
  EXPECT_EQ(simplify("floordiv(flat, seq)*seq*3 + mod(flat, seq)*3 + 1"), "flat*3 + 1");
  EXPECT_EQ(simplify("floordiv(flat, 60)*60 + mod(floordiv(flat, 6), 10)*6 + mod(flat, 6)"),
            "flat");
  EXPECT_EQ(simplify("mod(floordiv(flat, 6), 10)*6 + mod(flat, 6)"), "mod(flat, 60)");
  EXPECT_EQ(simplify("floordiv(c, 8)*4 + mod(c, 8)"), "floordiv(c, 8)*4 + mod(c, 8)");
  EXPECT_EQ(simplify("floordiv(flat, past + 1)*(past + 1) + mod(flat, past + 1)"), "flat");
}

Exprs Shape(std::initializer_list<const char*> dims) {
  Exprs shape;
  for (const char* dim : dims) shape.push_back(E(dim));
  return shape;
}

TEST(Linearize, UndoesDelinearize) {
  const Ranges ranges = TestRanges();
  const std::pair<const char*, Exprs> cases[] = {
      {"n", Shape({"2", "3", "4"})},
      {"n", Shape({"1", "24", "1"})},
      {"n", Shape({"24"})},
      {"flat", Shape({"batch", "seq", "64"})},
      {"flat", Shape({"batch", "seq", "8", "8"})},
      {"flat", Shape({"8", "batch", "8", "seq"})},
      {"cache", Shape({"batch", "8", "past + seq"})},
      {"cache", Shape({"batch", "past + seq", "8"})},
      {"i*27 + c", Shape({"batch", "3", "9"})},
      {"s*64 + n", Shape({"seq", "4", "16"})},
  };
  for (const auto& [position, shape] : cases) {
    const Exprs index = Delinearize(E(position), shape, ranges);
    EXPECT_EQ(Linearize(index, shape, ranges).ToString(), E(position).ToString());
  }
}

TEST(Linearize, SeesThroughReshapes) {
  const Ranges ranges = TestRanges();
  const std::vector<Exprs> shapes = {
      Shape({"batch", "seq", "64"}), Shape({"batch*seq", "8", "8"}), Shape({"batch", "seq*64"}),
      Shape({"seq", "batch", "1", "64"}), Shape({"batch*seq*64"})};
  for (const Exprs& outer : shapes) {
    for (const Exprs& inner : shapes) {
      const Expr at = Linearize(Delinearize(E("flat"), outer, ranges), outer, ranges);
      const Expr back = Linearize(Delinearize(at, inner, ranges), inner, ranges);
      EXPECT_EQ(back.ToString(), "flat");
    }
  }
}

// A [batch, seq, 8, 8] tensor, its two middle axes swapped, read as rows of seq*64.
TEST(Linearize, KeepsWhatATransposeNeeds) {
  const Ranges ranges = TestRanges();
  const Exprs shape = Shape({"batch", "seq", "8", "8"});
  Exprs index = Delinearize(E("flat"), shape, ranges);
  std::swap(index[1], index[2]);
  const Expr swapped = Linearize(index, Shape({"batch", "8", "seq", "8"}), ranges);
  EXPECT_EQ(swapped.ToString(),
            "floordiv(flat, seq*64)*seq*64 + mod(flat, 8) + mod(floordiv(flat, 64), seq)*8 + "
            "mod(floordiv(flat, 8), 8)*seq*8");
  EXPECT_EQ(Delinearize(swapped, Shape({"batch", "seq*64"}), ranges)[0].ToString(),
            "floordiv(flat, seq*64)");
}

TEST(Delinearize, NeedsNoDivisionByExtentOne) {
  const Ranges ranges = TestRanges();
  const Exprs index =
      Delinearize(E("i*27 + c"), Shape({"1", "batch", "1", "27"}), ranges);
  EXPECT_EQ(index, Shape({"0", "i", "0", "c"}));
  EXPECT_EQ(Delinearize(E("flat"), Shape({"batch", "seq*64"}), ranges)[0].ToString(),
            "floordiv(flat, seq*64)");
  EXPECT_EQ(Delinearize(E("unknown"), Shape({"4", "2"}), ranges)[0].ToString(),
            "mod(floordiv(unknown, 2), 4)");
  EXPECT_EQ(Delinearize(E("n"), Shape({"0", "4"}), ranges), Shape({"0", "0"}));
  EXPECT_TRUE(Delinearize(0, {}, ranges).empty());
}

TEST(Substitute, SimplifiesUnderRanges) {
  const auto replace = [](const std::string& name) -> std::optional<Expr> {
    if (name == "x") return E("i*27 + c");
    if (name == "y") return Expr(27);
    return std::nullopt;
  };
  const Ranges ranges = TestRanges();
  EXPECT_EQ(E("floordiv(x, y)").Substitute(replace, ranges).ToString(), "i");
  EXPECT_EQ(E("floordiv(x, 8)*8 + mod(x, 8)").Substitute(replace, ranges).ToString(), "c + i*27");
  EXPECT_EQ(E("min(mod(x, y), 30) + q").Substitute(replace, ranges).ToString(), "c + q");
}

}  // namespace
}  // namespace fusec
