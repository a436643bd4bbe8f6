// Compressed interaction: products of all pairs of fields, which the kernels of products make themselves, in rows of a batch and a column
// of the fields. FUSEC_PROPERTY_DEVICE=cuda runs them on a GPU.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

struct Case {
  Dtype dtype;
  const char* precision;
  int64_t fields, dim;
  std::vector<int64_t> layers;
  double tolerance;  // of the largest: TF32 rounds both factors to 11 bits
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << DtypeName(c.dtype) << " " << c.precision << " " << c.fields << " fields of " << c.dim;
  for (const int64_t columns : c.layers) *out << ", " << columns;
}

// Layers y[b, n, d] = relu(sum over h, m of w[n, h, m] x[b, h, d] x0[b, m, d] + bias[n]), and their sums over d side by side.
std::unique_ptr<Graph> Interaction(const Case& c, uint64_t seed) {
  auto graph = std::make_unique<Graph>();
  graph->name = "interaction";
  graph->symbols = {{"batch", 0, 65536}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  const auto weights = [&](std::vector<int64_t> dims, double scale) {
    TensorData data(c.dtype, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random.Eighths() * scale);
    return builder.Constant(std::move(data));
  };
  const auto reshape = [&](Value* x, Shape shape) { return builder.Make(OpKind::kReshape, {x}, {{"shape", std::move(shape)}}); };
  Value* x0 = graph->AddInput("x", {c.dtype, {batch, c.fields, c.dim}});
  Value* x = x0;
  int64_t height = c.fields;
  ValueList sums;
  for (const int64_t columns : c.layers) {
    Value* pairs = builder.Make(OpKind::kMul, {reshape(x, {batch, height, 1, c.dim}), reshape(x0, {batch, 1, c.fields, c.dim})});
    const int64_t terms = height * c.fields;
    Value* product = builder.Make(OpKind::kMatMul, {weights({columns, terms}, 1.0 / 16), reshape(pairs, {batch, terms, c.dim})},
                                  {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
    x = builder.Make(OpKind::kRelu, {builder.Make(OpKind::kAdd, {product, weights({columns, 1}, 1)})});
    sums.push_back(builder.Make(OpKind::kReduceSum, {x}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}}));
    height = columns;
  }
  graph->outputs = {builder.Make(OpKind::kConcat, sums, {{"axis", int64_t{1}}})};
  graph->output_names = {"y"};
  return graph;
}

class Pairs : public testing::TestWithParam<Case> {};

TEST_P(Pairs, AnswersMatch) {
  const auto graph = Interaction(GetParam(), 1);
  ExpectRightAnswers(*graph, GpuOrItsText(), GetParam().precision, /*seed=*/1, {0, 1, 3, 17}, GetParam().tolerance);
}

TEST_P(Pairs, AnswersMatchOnTheCpu) {
  const auto graph = Interaction(GetParam(), 2);
  ExpectRightAnswers(*graph, RunOn::kCpu, GetParam().precision, /*seed=*/2, {0, 1, 3, 17}, GetParam().tolerance);
}

// Kernels that tuning would try.
TEST(PairsCandidates, AnswersMatch) {
  const auto graph = Interaction({Dtype::kF32, "high", 6, 4, {12, 40}, 0}, 3);
  for (size_t candidate = 1; candidate <= 6; ++candidate) {
    const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), {}, "high", candidate);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const int64_t batch : {1, 5, 33}) {
      const auto inputs = RandomInputs(*graph, /*seed=*/3, {{"batch", batch}});
      const std::string what = "candidate " + std::to_string(candidate) + ", batch " + std::to_string(batch);
      ExpectAnswers(**compiled, {graph.get()}, {inputs}, 5e-3, what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Pairs,
    testing::Values(Case{Dtype::kF32, "highest", 26, 16, {100, 50}, 1e-5}, Case{Dtype::kF32, "high", 26, 16, {100, 50}, 5e-3},
                    Case{Dtype::kF16, "highest", 26, 16, {100, 50}, 5e-3}, Case{Dtype::kF32, "highest", 3, 4, {130, 7}, 1e-5},
                    Case{Dtype::kF32, "high", 3, 1, {130, 130, 1}, 5e-3}, Case{Dtype::kF16, "highest", 3, 4, {50, 100}, 5e-3},
                    Case{Dtype::kBF16, "highest", 27, 4, {25, 9}, 3e-2}, Case{Dtype::kF32, "high", 13, 5, {11, 1}, 5e-3}));

}  // namespace
}  // namespace fusec
