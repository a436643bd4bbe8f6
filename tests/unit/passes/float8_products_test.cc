// Which products float8-products rounds, and how that changes their answers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/reference/interpreter.h"
#include "passes/pass_manager.h"

namespace fusec {
namespace {

constexpr int64_t kDepth = 128, kDepthOfHalves = 1536;

// Numbers of both signs that no short float represents exactly.
TensorData Numbers(Dtype dtype, std::vector<int64_t> dims) {
  TensorData numbers(dtype, std::move(dims));
  for (int64_t i = 0; i < numbers.element_count(); ++i)
    numbers.SetDouble(i, std::sin(static_cast<double>(i * i % 7919)) + 0.01);
  return numbers;
}

struct Model {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Value* x = nullptr;

  explicit Model(Dtype dtype, int64_t depth = kDepth) {
    graph->name = "g";
    graph->symbols = {{"batch", 1, 64}};
    x = graph->AddInput("x", {dtype, {Expr::Symbol("batch"), depth}});
  }
  // A product of `left` and weights of so many columns, an output.
  void Multiply(Value* left, TensorData weights) {
    Builder builder(*graph);
    Value* w = builder.Constant(std::move(weights), "w" + std::to_string(graph->outputs.size()));
    graph->outputs.push_back(
        builder.Make(OpKind::kMatMul, {left, w}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}},
                     "y" + std::to_string(graph->outputs.size())));
  }
  std::vector<Float8Product> Round(double budget = kFloat8Budget, const std::string& precision = "fp8") {
    PassManager manager;
    manager.options.matmul_precision = precision;
    manager.options.float8_budget = budget;
    const auto done = manager.Run(*graph, {"float8-products", "fold-constants"});
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return manager.report().float8_products;
  }
  int64_t Count(OpKind kind) const {
    return std::count_if(graph->nodes.begin(), graph->nodes.end(), [&](const auto& node) { return node->kind == kind; });
  }
  std::vector<ReferenceTensor> Run(const TensorData& input) const {
    return Interpret(*graph, {ReferenceTensor::FromData(input)}).value();
  }
};

double Distance(const ReferenceTensor& found, const ReferenceTensor& expected) {
  double distance = 0, norm = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    distance += std::pow(found.Real(i) - expected.Real(i), 2);
    norm += std::pow(expected.Real(i), 2);
  }
  return std::sqrt(distance / norm);
}

TEST(Float8Products, AreAsFarOffAsTheySay) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    const int64_t depth = dtype == Dtype::kF32 ? kDepth : kDepthOfHalves;
    Model model(dtype, depth);
    model.Multiply(model.x, Numbers(dtype, {1024, depth}));
    const TensorData rows = Numbers(dtype, {9, depth});
    const auto exact = model.Run(rows);
    const std::vector<Float8Product> products = model.Round();
    ASSERT_EQ(products.size(), 1u);
    EXPECT_EQ(products[0].kept, "");
    EXPECT_EQ(products[0].columns, 1024);
    EXPECT_EQ(products[0].terms, depth);
    const double distance = Distance(model.Run(rows)[0], exact[0]);
    EXPECT_GT(distance, products[0].error / 2) << DtypeName(dtype);
    EXPECT_LT(distance, products[0].error * 2) << DtypeName(dtype);
    EXPECT_EQ(model.Count(OpKind::kToE4M3), 1) << "the weights' codes are constants";
  }
}

TEST(Float8Products, ShareTheCodesOfTheirRows) {
  Model model(Dtype::kF32);
  model.Multiply(model.x, Numbers(Dtype::kF32, {300, kDepth}));
  model.Multiply(model.x, Numbers(Dtype::kF32, {300, kDepth}));
  EXPECT_EQ(model.Round().size(), 2u);
  EXPECT_EQ(model.Count(OpKind::kToE4M3), 1);
  EXPECT_EQ(model.Count(OpKind::kFromE4M3), 2) << "each product decodes them in its own kernel";
}

TEST(Float8Products, OfFewColumnsStay) {
  Model model(Dtype::kF32);
  model.Multiply(model.x, Numbers(Dtype::kF32, {300, kDepth}));
  const std::vector<Float8Product> products = model.Round();
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0].kept, "rounding its rows would take longer than it saves");
  EXPECT_EQ(model.Count(OpKind::kToE4M3), 0);
}

TEST(Float8Products, OfFewTermsStayInHalves) {
  Model model(Dtype::kF16);
  model.Multiply(model.x, Numbers(Dtype::kF16, {1024, kDepth}));
  EXPECT_EQ(model.Round()[0].kept, "sums of so few terms take no longer in halves");
  EXPECT_EQ(model.Count(OpKind::kToE4M3), 0);
}

TEST(Float8Products, AreRoundedBehindAReduction) {
  Model model(Dtype::kF32);
  Builder builder(*model.graph);
  Value* sum = builder.Make(OpKind::kReduceSum, {model.x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
  model.Multiply(builder.Make(OpKind::kDiv, {model.x, sum}), Numbers(Dtype::kF32, {64, kDepth}));
  EXPECT_EQ(model.Round()[0].kept, "");
}

TEST(Float8Products, AboveTheBudgetStay) {
  Model model(Dtype::kF32);
  model.Multiply(model.x, Numbers(Dtype::kF32, {1024, kDepth}));
  EXPECT_EQ(model.Round(0.001)[0].kept, "its error is above the budget");
  EXPECT_EQ(model.Count(OpKind::kToE4M3), 0);
  TensorData weights = Numbers(Dtype::kF32, {1024, kDepth});
  weights.SetDouble(0, std::numeric_limits<double>::quiet_NaN());
  Model of_nan(Dtype::kF32);
  of_nan.Multiply(of_nan.x, std::move(weights));
  EXPECT_EQ(of_nan.Round()[0].kept, "its error is above the budget");
}

TEST(Float8Products, AreOfThePrecisionAlone) {
  Model model(Dtype::kF32);
  model.Multiply(model.x, Numbers(Dtype::kF32, {1024, kDepth}));
  EXPECT_TRUE(model.Round(kFloat8Budget, "high").empty());
  EXPECT_EQ(model.Count(OpKind::kToE4M3), 0);
}

TEST(Float8Products, OfZerosAndOfInfinities) {
  Model model(Dtype::kF32);
  model.Multiply(model.x, Numbers(Dtype::kF32, {1024, kDepth}));
  model.Round();
  TensorData rows(Dtype::kF32, {3, kDepth});
  rows.SetDouble(kDepth, 1e-40);
  rows.SetDouble(2 * kDepth, std::numeric_limits<double>::infinity());
  const ReferenceTensor found = model.Run(rows)[0];
  EXPECT_EQ(found.Real(0), 0);
  EXPECT_TRUE(std::isfinite(found.Real(1024)));
  EXPECT_TRUE(std::isnan(found.Real(2 * 1024)));
}

}  // namespace
}  // namespace fusec
