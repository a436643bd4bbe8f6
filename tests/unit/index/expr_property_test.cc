#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/index/expr.h"

namespace fusec {
namespace {

using Symbols = std::map<std::string, int64_t>;

int64_t FloorOf(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// A random expression, and its value by plain integer arithmetic for each sample of symbol values; nullopt where it divides by zero.
struct Computed {
  Expr expr;
  std::vector<std::optional<int64_t>> values;
};

class ExprGenerator {
 public:
  static constexpr int kSamples = 12;

  explicit ExprGenerator(uint32_t seed) : random_(seed) {
    // Symbols: dims that may be 0, loop variables below symbolic ends, a symbol of either sign, and an unbounded one.
    const std::vector<std::tuple<std::string, std::string, std::string>> bounds = {
        {"batch", "1", "5"},       {"seq", "0", "4"},     {"c", "-3", "7"},
        {"i", "0", "batch - 1"},   {"s", "0", "seq - 1"}, {"flat", "0", "batch*seq*4 - 1"},
        {"row", "0", "3*batch+2"}, {"j", "i", "batch"}};
    for (const auto& [name, low, high] : bounds) {
      ranges.Set(name, *Expr::Parse(low), *Expr::Parse(high));
    }
    while (samples.size() < kSamples) {
      Symbols sample{{"unbounded", Pick(-40, 40)}};
      bool empty = false;
      for (const auto& [name, low, high] : bounds) {
        const int64_t from = *Expr::Parse(low)->Evaluate(sample);
        const int64_t to = *Expr::Parse(high)->Evaluate(sample);
        if (name != "s" && name != "flat" && from > to) empty = true;
        sample[name] = Pick(from, std::max(from, to));
        if (from > to) sample.erase(name);
      }
      if (!empty) samples.push_back(sample);
    }
  }

  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  Computed Generate(int depth) {
    const int64_t kind = depth == 0 ? Pick(0, 1) : Pick(1, 12);
    if (kind == 0) return Constant(Pick(0, 3) == 0 ? Pick(-9, 9) : INT64_C(1) << Pick(0, 4));
    if (kind == 1) return Symbol();
    const Computed a = Generate(depth - 1), b = Generate(kind > 5 ? Pick(0, depth - 1) : depth - 1);
    const auto divide = [](int64_t x, int64_t y) { return FloorOf(x, y); };
    const auto modulo = [](int64_t x, int64_t y) { return x - FloorOf(x, y) * y; };
    switch (kind) {
      case 2:
      case 3:
        return Combine(a, b, a.expr + b.expr, [](int64_t x, int64_t y) { return x + y; });
      case 4:
        return Combine(a, b, a.expr - b.expr, [](int64_t x, int64_t y) { return x - y; });
      case 5:
      case 6:
        return Combine(a, b, a.expr * b.expr, [](int64_t x, int64_t y) { return x * y; });
      case 7:
        return Combine(a, b, Min(a.expr, b.expr, ranges),
                       [](int64_t x, int64_t y) { return std::min(x, y); });
      case 8:
        return Combine(a, b, Max(a.expr, b.expr, ranges),
                       [](int64_t x, int64_t y) { return std::max(x, y); });
      case 9:
      case 10:
        return Combine(a, b, FloorDiv(a.expr, b.expr, ranges), divide, true);
      case 11:
        return Combine(a, b, Mod(a.expr, b.expr, ranges), modulo, true);
      default: {  // what delinearisation leaves behind
        const Computed quotient = Combine(a, b, FloorDiv(a.expr, b.expr, ranges), divide, true);
        const Computed rest = Combine(a, b, Mod(a.expr, b.expr, ranges), modulo, true);
        Computed sum = Combine(
            a, b, quotient.expr * b.expr + rest.expr, [](int64_t x, int64_t) { return x; }, true);
        sum.expr = SimplifySum(sum.expr, ranges);
        return sum;
      }
    }
  }

  // Empty if the expression has the expected value in all samples; otherwise describes the difference.
  std::string Compare(const Computed& computed, const Expr& expr) const {
    for (int k = 0; k < kSamples; ++k) {
      if (!computed.values[k]) continue;
      const Result<int64_t> value = expr.Evaluate(samples[k]);
      if (value && *value == *computed.values[k]) continue;
      std::string text = expr.ToString() + " is " +
                         (value ? std::to_string(*value) : value.error().message) + ", not " +
                         std::to_string(*computed.values[k]) + " at";
      for (const auto& [name, at] : samples[k]) text += " " + name + "=" + std::to_string(at);
      return text;
    }
    return "";
  }

  Ranges ranges;
  std::vector<Symbols> samples;

 private:
  Computed Constant(int64_t value) {
    return {value, std::vector<std::optional<int64_t>>(kSamples, value)};
  }

  Computed Symbol() {
    static constexpr const char* kNames[] = {"batch", "seq", "c",    "i",         "s",
                                             "flat",  "row", "flat", "unbounded", "j"};
    const std::string name = kNames[Pick(0, 9)];
    Computed computed{Expr::Symbol(name), {}};
    for (const Symbols& sample : samples) {
      const auto found = sample.find(name);
      computed.values.push_back(found == sample.end() ? std::nullopt
                                                      : std::optional(found->second));
    }
    return computed;
  }

  template <class Function>
  Computed Combine(const Computed& a, const Computed& b, Expr expr, Function function,
                   bool divides = false) {
    Computed computed{std::move(expr), {}};
    for (int k = 0; k < kSamples; ++k) {
      const bool defined = a.values[k] && b.values[k] && !(divides && *b.values[k] == 0) &&
                           std::abs(*a.values[k]) < 1'000'000 && std::abs(*b.values[k]) < 1'000'000;
      computed.values.push_back(defined ? std::optional(function(*a.values[k], *b.values[k]))
                                        : std::nullopt);
    }
    return computed;
  }

  std::mt19937 random_;
};

std::optional<Expr> KeepAll(const std::string&) { return std::nullopt; }

void CheckSeed(uint32_t seed) {
  ExprGenerator generator(seed);
  const Ranges& ranges = generator.ranges;
  const Computed computed = generator.Generate(4);
  const Expr& expr = computed.expr;
  ASSERT_EQ(generator.Compare(computed, expr), "") << "seed " << seed;
  ASSERT_EQ(generator.Compare(computed, SimplifySum(expr, ranges)), "") << "seed " << seed;
  ASSERT_EQ(generator.Compare(computed, expr.Substitute(KeepAll, ranges)), "") << "seed " << seed;
  const Result<Expr> parsed = Expr::Parse(expr.ToString());
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->ToString(), expr.ToString()) << "seed " << seed;
  ASSERT_TRUE(*parsed == expr) << "seed " << seed << " " << expr.ToString();
  const Ranges::Interval interval = ranges.IntervalOf(expr);
  const bool non_negative = ranges.ProvenNonNegative(expr);
  for (const std::optional<int64_t>& value : computed.values) {
    if (!value) continue;
    ASSERT_LE(interval.low, *value) << "seed " << seed << " " << expr.ToString();
    ASSERT_GE(interval.high, *value) << "seed " << seed << " " << expr.ToString();
    ASSERT_TRUE(!non_negative || *value >= 0) << "seed " << seed << " " << expr.ToString();
  }
}

uint32_t SeedCount() {
  const char* count = std::getenv("FUSEC_PROPERTY_RUNS");
  return count == nullptr ? 3000 : static_cast<uint32_t>(std::atoi(count));
}

TEST(ExprProperty, SimplificationKeepsTheValue) {
  for (uint32_t seed = 0; seed < SeedCount() && !testing::Test::HasFatalFailure(); ++seed) {
    CheckSeed(seed);
  }
}

// Random positions in random shapes: the coordinates lie inside the shape, and give the same position again.
TEST(ExprProperty, DelinearizeAndBack) {
  for (uint32_t seed = 0; seed < SeedCount() / 4; ++seed) {
    ExprGenerator generator(seed);
    Exprs shape;
    for (int64_t rank = generator.Pick(1, 4); rank > 0; --rank) {
      const char* const dims[] = {"batch", "seq", "4", "2", "3", "batch + seq", "1"};
      shape.push_back(*Expr::Parse(dims[generator.Pick(0, 6)]));
    }
    generator.ranges.Set("position", 0, Product(shape) - 1);
    const Expr position = Expr::Symbol("position");
    const Exprs index = Delinearize(position, shape, generator.ranges);
    const Expr back = Linearize(index, shape, generator.ranges);
    const std::string expected = Product(shape).IsConstant(1) ? "0" : "position";
    ASSERT_EQ(back.ToString(), expected) << "seed " << seed;
    for (Symbols sample : generator.samples) {
      const int64_t count = *Product(shape).Evaluate(sample);
      if (count == 0) continue;
      sample["position"] = generator.Pick(0, count - 1);
      int64_t at = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const int64_t extent = *shape[axis].Evaluate(sample);
        const int64_t coordinate = *index[axis].Evaluate(sample);
        ASSERT_GE(coordinate, 0) << "seed " << seed;
        ASSERT_LT(coordinate, extent) << "seed " << seed;
        at = at * extent + coordinate;
      }
      ASSERT_EQ(at, sample["position"]) << "seed " << seed;
    }
  }
}

// Splits a list of dims into random groups; the product of each group is a dim of the reshaped tensor.
Exprs Regroup(ArrayRef<Expr> dims, ExprGenerator& generator) {
  Exprs shape{1};
  for (const Expr& dim : dims) {
    if (generator.Pick(0, 1) == 0) shape.emplace_back(1);
    shape.back() = shape.back() * dim;
  }
  return shape;
}

// A reshape to the other shape and back, read through the loop variables of its result, changes no index.
TEST(ExprProperty, ReshapeAndBack) {
  for (uint32_t seed = 0; seed < SeedCount() / 4; ++seed) {
    ExprGenerator generator(seed);
    Ranges& ranges = generator.ranges;
    Exprs dims;
    for (int64_t count = generator.Pick(1, 5); count > 0; --count) {
      const char* const names[] = {"batch", "seq", "8", "2", "3"};
      dims.push_back(*Expr::Parse(names[generator.Pick(0, 4)]));
    }
    if (generator.Pick(0, 1) == 0) dims[0] = *Expr::Parse("batch + seq");
    std::rotate(dims.begin(), dims.begin() + generator.Pick(0, 4) % dims.size(), dims.end());
    const Exprs shape = Regroup(dims, generator), other = Regroup(dims, generator);
    Exprs index;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string name = "x" + std::to_string(axis);
      ranges.Set(name, 0, shape[axis] - 1);
      index.push_back(shape[axis].IsConstant(1) ? Expr(0) : Expr::Symbol(name));
    }
    const Expr position = Linearize(index, shape, ranges);
    const Exprs there = Delinearize(position, other, ranges);
    const Expr back = Linearize(there, other, ranges);
    ASSERT_EQ(back.ToString(), position.ToString()) << "seed " << seed;
    const Exprs again = Delinearize(back, shape, ranges);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      ASSERT_EQ(again[axis].ToString(), index[axis].ToString())
          << "seed " << seed << ", position " << back.ToString() << ", axis " << axis << " of "
          << shape[axis].ToString();
    }
  }
}

}  // namespace
}  // namespace fusec
