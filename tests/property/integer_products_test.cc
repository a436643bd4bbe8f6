// Products of 8-bit integers: by the library or in parts of f32 on a CPU, in f32 on a GPU.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

struct Case {
  Dtype left, right;
  int64_t depth, columns;
  // Zero points: none (0), one number (1), or one per row of the left and per column of the right
  // factor (2).
  int zeros_of_left, zeros_of_right;
  Dtype result = Dtype::kI32;
};

// (x - zero) (w - zeros), where the zero point of x is an input and w a constant.
std::unique_ptr<Graph> ProductOf(const Case& c, uint64_t seed) {
  auto graph = std::make_unique<Graph>();
  graph->name = "integers";
  graph->symbols = {{"batch", 0, 9000}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  const auto constant = [&](std::vector<int64_t> dims, int64_t count) {
    TensorData data(c.right, std::move(dims));
    const int64_t least = c.right == Dtype::kI8 ? -count / 2 : 0;
    for (int64_t i = 0; i < data.element_count(); ++i)
      data.SetInt(i, least + static_cast<int64_t>(random.Below(count)));
    return builder.Constant(std::move(data));
  };
  Value* x = graph->AddInput("x", {c.left, {batch, c.depth}});
  Value *x_zero = nullptr, *w_zero = nullptr;
  if (c.zeros_of_left == 1) x_zero = graph->AddInput("x_zero", {c.left, {}});
  if (c.zeros_of_left == 2) x_zero = graph->AddInput("x_zero", {c.left, {batch, 1}});
  Value* w = constant({c.depth, c.columns}, 256);
  if (c.zeros_of_right == 1) w_zero = constant({}, 100);
  if (c.zeros_of_right == 2) w_zero = constant({c.columns}, 256);
  ValueList operands = {x, w, x_zero, w_zero};
  while (operands.back() == nullptr) operands.pop_back();
  graph->outputs = {builder.Make(OpKind::kMatMulInteger, operands, {{"to", c.result}})};
  graph->output_names = {"y"};
  for (const auto& input : graph->inputs) graph->input_names.push_back(input->name);
  return graph;
}

class IntegerProducts : public testing::TestWithParam<Case> {};

TEST_P(IntegerProducts, AnswersMatch) {
  const auto graph = ProductOf(GetParam(), 1);
  const double tolerance = GetParam().result == Dtype::kF32 ? 1e-6 : 0;
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    SCOPED_TRACE(where == RunOn::kCpu ? "cpu" : "gpu");
    ExpectRightAnswers(*graph, where, "highest", /*seed=*/1, {0, 1, 3, 33, 70}, tolerance);
  }
}

// Sums that f32 represents, and longer ones; weights that fit 8 signed bits without their zero
// points, and others, which become products of f32.
INSTANTIATE_TEST_SUITE_P(
    All, IntegerProducts,
    testing::Values(Case{Dtype::kU8, Dtype::kI8, 40, 24, 0, 0},
                    Case{Dtype::kI8, Dtype::kI8, 513, 16, 0, 0},
                    Case{Dtype::kU8, Dtype::kI8, 1000, 33, 1, 0},
                    Case{Dtype::kI8, Dtype::kI8, 64, 17, 2, 0},
                    Case{Dtype::kU8, Dtype::kU8, 100, 20, 1, 1},
                    Case{Dtype::kU8, Dtype::kI8, 600, 8, 1, 2},
                    Case{Dtype::kI8, Dtype::kU8, 96, 40, 2, 2},
                    Case{Dtype::kU8, Dtype::kI8, 600, 48, 1, 0, Dtype::kF32},
                    Case{Dtype::kI8, Dtype::kU8, 128, 16, 0, 1, Dtype::kF32}));

// min(max(round(x / scale) + zero point, 0), 255) as u8; all numbers are multiples of powers of two, so that nothing is rounded otherwise.
Value* Quantized(Builder& builder, Value* x, double scale, double zero_point) {
  const auto number = [&](double value) { return builder.Scalar(Dtype::kF32, value); };
  Value* y = builder.Make(OpKind::kDiv, {x, number(scale)});
  y = builder.Make(OpKind::kRound, {y});
  y = builder.Make(OpKind::kAdd, {y, number(zero_point)});
  y = builder.Make(OpKind::kMax, {y, number(0)});
  y = builder.Make(OpKind::kMin, {y, number(255)});
  return builder.Make(OpKind::kCast, {y}, {{"to", Dtype::kU8}});
}

// Two layers between which activations are quantized again, as in models by quantize_static. On a GPU, both are products of halves.
std::unique_ptr<Graph> QuantizedLayers(int64_t depth, int64_t hidden, int64_t columns) {
  auto graph = std::make_unique<Graph>();
  graph->name = "quantized";
  graph->symbols = {{"batch", 0, 9000}};
  Builder builder(*graph);
  Random random(7);
  const auto layer = [&](Value* x, int64_t k, int64_t n, double zero_point, double scale) {
    TensorData weights(Dtype::kI8, {k, n}), bias(Dtype::kF32, {n});
    for (int64_t i = 0; i < k * n; ++i)
      weights.SetInt(i, static_cast<int64_t>(random.Below(256)) - 128);
    for (int64_t i = 0; i < n; ++i)
      bias.SetDouble(i, (static_cast<double>(random.Below(64)) - 32) / 4);
    const auto zero = builder.Scalar(Dtype::kU8, zero_point);
    Value* y = builder.Make(OpKind::kMatMulInteger, {x, builder.Constant(std::move(weights)), zero},
                            {{"to", Dtype::kF32}});
    y = builder.Make(OpKind::kMul, {y, builder.Scalar(Dtype::kF32, scale)});
    return builder.Make(OpKind::kAdd, {y, builder.Constant(std::move(bias))});
  };
  Value* x = graph->AddInput("x", {Dtype::kF32, {Expr::Symbol("batch"), depth}});
  // Coarse inputs: they are multiples of an eighth, so that ratios are exact.
  Value* coarse = builder.Make(OpKind::kMul, {x, builder.Scalar(Dtype::kF32, 64)});
  coarse = builder.Make(OpKind::kRound, {coarse});
  Value* h = layer(Quantized(builder, coarse, 0.5, 128), depth, hidden, 128, 0x1p-9);
  h = builder.Make(OpKind::kRelu, {h});
  Value* y = layer(Quantized(builder, h, 0x1p-3, 3), hidden, columns, 3, 0x1p-4);
  graph->outputs = {y};
  graph->output_names = {"y"};
  graph->input_names = {"x"};
  return graph;
}

TEST(QuantizedLayers, AnswersMatch) {
  for (const auto& [depth, hidden, columns] :
       {std::tuple{64, 128, 96}, {256, 192, 40}, {100, 60, 36}}) {
    const auto graph = QuantizedLayers(depth, hidden, columns);
    for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
      SCOPED_TRACE(where == RunOn::kCpu ? "cpu" : "gpu");
      ExpectRightAnswers(*graph, where, "highest", /*seed=*/1, {0, 1, 5, 40, 140}, 1e-7);
    }
  }
}

}  // namespace
}  // namespace fusec
