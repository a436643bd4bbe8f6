// Products with long sums whose left operand the kernel computes itself: all pairwise products of a vector's elements, with every kind of
// kernel that may be planned or tried.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// relu(vec(x x^T) W + b), for x of `width` elements.
std::unique_ptr<Graph> BilinearLayer(int64_t width, int64_t columns, uint64_t seed) {
  auto graph = std::make_unique<Graph>();
  graph->name = "bilinear";
  graph->symbols = {{"batch", 0, 9000}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  const auto weights = [&](std::vector<int64_t> dims) {
    TensorData data(Dtype::kF32, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random.Eighths() / 4);
    return builder.Constant(std::move(data));
  };
  const auto reshape = [&](Value* x, Shape shape) { return builder.Make(OpKind::kReshape, {x}, {{"shape", std::move(shape)}}); };
  Value* x = graph->AddInput("x", {Dtype::kF32, {batch, width}});
  Value* outer = builder.Make(OpKind::kMul, {reshape(x, {batch, width, 1}), reshape(x, {batch, 1, width})});
  Value* product = builder.Make(OpKind::kMatMul, {reshape(outer, {batch, width * width}), weights({width * width, columns})},
                                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  Value* sum = builder.Make(OpKind::kAdd, {product, weights({columns})});
  graph->outputs = {builder.Make(OpKind::kRelu, {sum})};
  graph->output_names = {"y"};
  return graph;
}

// [4, batch, depth] elements that constant indices choose from x, multiplied by weights [4, columns, depth].
std::unique_ptr<Graph> ChosenElements(Dtype dtype, int64_t depth, int64_t columns, uint64_t seed) {
  constexpr int64_t kMatrices = 4, kWidth = 64;
  auto graph = std::make_unique<Graph>();
  graph->name = "chosen";
  graph->symbols = {{"batch", 0, 9000}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  TensorData weights(dtype, {kMatrices, columns, depth});
  for (int64_t i = 0; i < weights.element_count(); ++i) weights.SetDouble(i, random.Eighths() / 4);
  std::vector<int64_t> chosen(static_cast<size_t>(kMatrices * depth));
  for (int64_t& index : chosen) index = random.Below(kWidth);
  Value* x = graph->AddInput("x", {dtype, {batch, kWidth}});
  Value* indices = builder.Constant(TensorData::From(Dtype::kI32, {kMatrices * depth}, chosen));
  Value* elements = builder.Make(OpKind::kGather, {x, indices}, {{"axis", int64_t{1}}});
  Value* in_shares = builder.Make(OpKind::kReshape, {elements}, {{"shape", Shape{batch, kMatrices, depth}}});
  Value* shares = builder.Make(OpKind::kTranspose, {in_shares}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  graph->outputs = {builder.Make(OpKind::kMatMul, {shares, builder.Constant(std::move(weights))},
                                 {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}})};
  graph->output_names = {"y"};
  return graph;
}

struct Case {
  const char* precision;
  int64_t width, columns;
  double tolerance;  // of the largest: TF32 rounds both factors to 11 bits
};

class Prologue : public testing::TestWithParam<Case> {};

TEST_P(Prologue, AnswersMatch) {
  const auto& [precision, width, columns, tolerance] = GetParam();
  const auto graph = BilinearLayer(width, columns, 1);
  ExpectRightAnswers(*graph, GpuOrItsText(), precision, /*seed=*/1, {0, 1, 3, 7, 20, 40, 70, 150}, tolerance);
}

// Packs of 8, 4, 2 elements and of one, of 16 bytes down to 2.
TEST(PrologueTypes, AnswersMatch) {
  for (const auto& [dtype, depth] : std::vector<std::pair<Dtype, int64_t>>{{Dtype::kF16, 4096},
                                                                           {Dtype::kF16, 4102},
                                                                           {Dtype::kBF16, 4097},
                                                                           {Dtype::kF32, 4097},
                                                                           {Dtype::kF32, 4098}}) {
    SCOPED_TRACE(std::string(DtypeName(dtype)) + " " + std::to_string(depth));
    const auto graph = ChosenElements(dtype, depth, 40, 3);
    ExpectRightAnswers(*graph, GpuOrItsText(), "highest", /*seed=*/3, {1, 3, 9, 40, 70}, 1e-5);
  }
}

// Kernels that tuning would try.
TEST(PrologueCandidates, AnswersMatch) {
  const auto graph = BilinearLayer(176, 40, 2);
  for (size_t candidate = 1; candidate <= 4; ++candidate) {
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), {}, "highest", candidate);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const int64_t batch : {1, 5, 33, 70}) {
      const auto inputs = RandomInputs(*graph, /*seed=*/2, {{"batch", batch}});
      const std::string what = "candidate " + std::to_string(candidate) + ", batch " + std::to_string(batch);
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, 1e-5, what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Prologue,
                         testing::Values(Case{"highest", 192, 20, 1e-5}, Case{"highest", 176, 72, 1e-5},
                                         Case{"high", 192, 20, 2e-3}, Case{"high", 176, 72, 2e-3}));

}  // namespace
}  // namespace fusec
