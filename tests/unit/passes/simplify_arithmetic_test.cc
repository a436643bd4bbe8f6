// The ops that replace powers and divisions in canonicalize give the same answers, also for NaN, infinities, -0 and denormals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/reference/interpreter.h"
#include "passes/canonicalize.h"

namespace fusec {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kSpecial = {0.0,  -0.0, 1.0,   -1.0,   0.5,       -3.0,       1e-40,
                                      1e30, 7.25, -1e30, -1e-40, kInfinity, -kInfinity, std::nan("")};

// y = op(x, constant), before and after.
struct Form {
  OpKind kind;
  double constant;
  bool becomes_other;
};

std::unique_ptr<Graph> GraphOf(const Form& form, bool squared) {
  auto graph = std::make_unique<Graph>();
  graph->name = "g";
  const int64_t count = static_cast<int64_t>(kSpecial.size());
  Value* x = graph->AddInput("x", {Dtype::kF64, {Expr(count)}});
  graph->input_names = {"x"};
  Builder builder(*graph);
  if (squared) x = builder.Make(OpKind::kMul, {x, x});
  graph->outputs = {builder.Make(form.kind, {x, builder.Scalar(Dtype::kF64, form.constant)})};
  graph->output_names = {"y"};
  return graph;
}

void ExpectSameAnswers(const Form& form, bool squared) {
  const auto graph = GraphOf(form, squared);
  const auto simpler = graph->Clone();
  PassReport report;
  const auto changed = Canonicalize(*simpler, {}, report);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(*changed, form.becomes_other) << Print(*graph);
  const auto inputs = {ReferenceTensor::FromData(
      TensorData::From(Dtype::kF64, {static_cast<int64_t>(kSpecial.size())}, kSpecial))};
  const auto expected = Interpret(*graph, inputs);
  const auto found = Interpret(*simpler, inputs);
  ASSERT_TRUE(expected.has_value() && found.has_value());
  for (size_t i = 0; i < kSpecial.size(); ++i) {
    const double wanted = (*expected)[0].reals[i];
    const double got = (*found)[0].reals[i];
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(got)) << kSpecial[i] << ": " << got << "\n" << Print(*graph);
      continue;
    }
    EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << kSpecial[i] << "\n" << Print(*graph);
    if (std::isinf(wanted)) EXPECT_EQ(got, wanted) << kSpecial[i] << "\n" << Print(*graph);
    else EXPECT_LE(std::fabs(got - wanted), 4e-16 * std::fabs(wanted)) << kSpecial[i] << Print(*graph);
  }
}

TEST(SimplifyArithmetic, AnswersAsBefore) {
  for (const Form& form : {Form{OpKind::kPow, 1, true}, Form{OpKind::kPow, 2, true},
                           Form{OpKind::kPow, 3, true}, Form{OpKind::kPow, -1, true},
                           Form{OpKind::kPow, 0.5, false}, Form{OpKind::kPow, -0.5, false},
                           Form{OpKind::kPow, 4, false}, Form{OpKind::kPow, 0, false},
                           Form{OpKind::kMul, 1, true}, Form{OpKind::kDiv, 1, true},
                           Form{OpKind::kDiv, 8, true}, Form{OpKind::kDiv, -0.125, true},
                           Form{OpKind::kDiv, 3, false}, Form{OpKind::kDiv, 0, false},
                           Form{OpKind::kSub, 0, true}, Form{OpKind::kSub, -0.0, false},
                           Form{OpKind::kAdd, 0, false}})
    ExpectSameAnswers(form, false);
}

TEST(SimplifyArithmetic, RootsOfSquaresAreRoots) {
  for (const double power : {0.5, -0.5}) ExpectSameAnswers({OpKind::kPow, power, true}, true);
}

}  // namespace
}  // namespace fusec
