// Left operands that product kernels compute themselves (prologues), for sums of any length: products of all pairs of fields, for each row
// of a batch and column of the fields (compressed interaction), and a target beside each item of a history, both looked up by ids (target
// attention). FUSEC_PROPERTY_DEVICE=cuda runs them on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/driver/build/pipeline.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

Value* Weights(Builder& builder, Random& random, Dtype dtype, std::vector<int64_t> dims, double scale) {
  TensorData data(dtype, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random.Eighths() * scale);
  return builder.Constant(std::move(data));
}
Value* Reshape(Builder& builder, Value* x, Shape shape) {
  return builder.Make(OpKind::kReshape, {x}, {{"shape", std::move(shape)}});
}
Value* MatMul(Builder& builder, Value* a, Value* b) {
  return builder.Make(OpKind::kMatMul, {a, b}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
}

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
  Value* x0 = graph->AddInput("x", {c.dtype, {batch, c.fields, c.dim}});
  Value* x = x0;
  int64_t height = c.fields;
  ValueList sums;
  for (const int64_t columns : c.layers) {
    Value* first = Reshape(builder, x, {batch, height, 1, c.dim});
    Value* pairs = builder.Make(OpKind::kMul, {first, Reshape(builder, x0, {batch, 1, c.fields, c.dim})});
    const int64_t terms = height * c.fields;
    Value* rows = Reshape(builder, pairs, {batch, terms, c.dim});
    Value* product = MatMul(builder, Weights(builder, random, c.dtype, {columns, terms}, 1.0 / 16), rows);
    Value* bias = Weights(builder, random, c.dtype, {columns, 1}, 1);
    x = builder.Make(OpKind::kRelu, {builder.Make(OpKind::kAdd, {product, bias})});
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

struct TargetCase {
  Dtype dtype;
  const char* precision;
  int64_t dim, columns;
  double tolerance;
};

void PrintTo(const TargetCase& c, std::ostream* out) {
  *out << DtypeName(c.dtype) << " " << c.precision << ", rows of " << c.dim << ", " << c.columns << " columns";
}

constexpr int64_t kItems = 5, kTableRows = 11;

// relu([q, h, max(q, h), q h] W + b) for the rows h that a history's ids choose, and the row q of a target.
std::unique_ptr<Graph> TargetBesideHistory(const TargetCase& c, uint64_t seed) {
  auto graph = std::make_unique<Graph>();
  graph->name = "target";
  graph->symbols = {{"batch", 0, 65536}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  Value* history = graph->AddInput("history", {Dtype::kI64, {batch, kItems}});
  Value* target = graph->AddInput("target", {Dtype::kI64, {batch}});
  Value* table = Weights(builder, random, c.dtype, {kTableRows, c.dim}, 1);
  const auto rows = [&](Value* ids) { return builder.Make(OpKind::kGather, {table, ids}, {{"axis", int64_t{0}}}); };
  Value* h = rows(history);
  Value* row = Reshape(builder, rows(target), {batch, 1, c.dim});
  Value* q = builder.Make(OpKind::kExpand, {row}, {{"shape", Shape{batch, kItems, c.dim}}});
  Value* x = builder.Make(OpKind::kConcat, {q, h, builder.Make(OpKind::kMax, {q, h}), builder.Make(OpKind::kMul, {q, h})},
                          {{"axis", int64_t{2}}});
  Value* product = MatMul(builder, x, Weights(builder, random, c.dtype, {4 * c.dim, c.columns}, 1.0 / 16));
  Value* sum = builder.Make(OpKind::kAdd, {product, Weights(builder, random, c.dtype, {c.columns}, 1)});
  graph->outputs = {builder.Make(OpKind::kRelu, {sum})};
  graph->output_names = {"y"};
  return graph;
}

class Target : public testing::TestWithParam<TargetCase> {};

TEST_P(Target, AnswersMatch) {
  const auto graph = TargetBesideHistory(GetParam(), 4);
  ExpectRightAnswers(*graph, GpuOrItsText(), GetParam().precision, /*seed=*/4, {0, 1, 3, 17, 40}, GetParam().tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, Target,
                         testing::Values(TargetCase{Dtype::kF32, "highest", 64, 80, 1e-5}, TargetCase{Dtype::kF32, "high", 64, 80, 5e-3},
                                         TargetCase{Dtype::kF16, "highest", 64, 80, 5e-3}, TargetCase{Dtype::kF32, "high", 18, 130, 5e-3},
                                         TargetCase{Dtype::kF16, "highest", 20, 9, 5e-3},
                                         TargetCase{Dtype::kF32, "highest", 17, 33, 1e-5}));

// An out-of-range id is reported as by a kernel that looks up rows and stores them.
TEST(TargetIds, AreCheckedWhereRowsAreMade) {
  const auto graph = TargetBesideHistory({Dtype::kF32, "high", 64, 80, 0}, 5);
  std::vector<std::string> apart = PipelinePasses(TargetKind::kGpu);
  std::erase(apart, "fuse-matmul-prologue");
  for (const int64_t batch : {1, 3, 40}) {
    std::vector<ReferenceTensor> inputs = RandomInputs(*graph, /*seed=*/5, {{"batch", batch}});
    for (int64_t& id : inputs[0].ints) id = 1;
    inputs[1].ints[static_cast<size_t>(batch) - 1] = kTableRows;
    std::vector<std::string> errors;
    for (const auto& passes : {std::vector<std::string>(), apart}) {
      const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), passes, "high");
      ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
      const auto found = (*compiled)->Run({inputs});
      ASSERT_FALSE(found.has_value());
      errors.push_back(found.error().message);
    }
    EXPECT_EQ(errors[0], errors[1]);
  }
}

}  // namespace
}  // namespace fusec
