// Products by weights of 4 bits, which kernels for few rows dequantize themselves and others read
// dequantized.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

struct Case {
  Dtype dtype;
  int64_t columns, blocks, block;
  bool has_zeros, are_integers;  // whether there are zero points, and whether they are integers
};

// relu(x W^T + b), with W of `columns` rows of `blocks` blocks, each with its scale.
std::unique_ptr<Graph> PackedLayer(const Case& c, uint64_t seed) {
  auto graph = std::make_unique<Graph>();
  graph->name = "packed";
  graph->symbols = {{"batch", 0, 9000}};
  const Expr batch = Expr::Symbol("batch");
  Builder builder(*graph);
  Random random(seed);
  const int64_t depth = c.blocks * c.block;
  const auto weights = [&](Dtype dtype, std::vector<int64_t> dims, auto number) {
    TensorData data(dtype, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, number());
    return builder.Constant(std::move(data));
  };
  Value* x = graph->AddInput("x", {c.dtype, {batch, depth}});
  TensorData bytes(Dtype::kU8, {c.columns, c.blocks, c.block / 2});
  for (int64_t i = 0; i < bytes.element_count(); ++i) bytes.SetInt(i, random.Below(256));
  Value* codes = builder.Make(OpKind::kUnpackInt4, {builder.Constant(std::move(bytes))},
                              {{"columns", c.block}});
  Value* real = builder.Make(OpKind::kCast, {codes}, {{"to", c.dtype}});
  const std::vector<int64_t> per_block = {c.columns, c.blocks, 1};
  if (c.has_zeros) {
    Value* zeros = weights(c.dtype, per_block, [&] {
      return static_cast<double>(random.Below(16)) + (c.are_integers ? 0 : 0.25);
    });
    real = builder.Make(OpKind::kSub, {real, zeros});
  }
  Value* scales =
      weights(c.dtype, per_block, [&] { return static_cast<double>(1 + random.Below(7)) / 256; });
  Value* scaled = builder.Make(OpKind::kMul, {real, scales});
  Value* matrix = builder.Make(OpKind::kReshape, {scaled}, {{"shape", Shape{c.columns, depth}}});
  Value* product = builder.Make(OpKind::kMatMul, {x, matrix},
                                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  Value* bias = weights(c.dtype, {c.columns}, [&] { return random.Eighths(); });
  graph->outputs = {builder.Make(OpKind::kRelu, {builder.Make(OpKind::kAdd, {product, bias})})};
  graph->output_names = {"y"};
  return graph;
}

class PackedWeights : public testing::TestWithParam<Case> {};

TEST_P(PackedWeights, AnswersMatch) {
  const auto graph = PackedLayer(GetParam(), 1);
  const double tolerance = GetParam().dtype == Dtype::kF32   ? 1e-5
                           : GetParam().dtype == Dtype::kF16 ? 2e-3
                                                             : 1.6e-2;
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    SCOPED_TRACE(where == RunOn::kCpu ? "cpu" : "gpu");
    ExpectRightAnswers(*graph, where, "highest", /*seed=*/1, {0, 1, 3, 8, 9, 16, 30, 33, 70},
                       tolerance);
  }
}

// Columns that fill no block, blocks shorter and longer than a load, depths that no pack of 16
// divides, and zero points of each kind.
INSTANTIATE_TEST_SUITE_P(All, PackedWeights,
                         testing::Values(Case{Dtype::kF16, 48, 4, 32, true, true},
                                         Case{Dtype::kF16, 50, 3, 32, true, false},
                                         Case{Dtype::kF16, 40, 9, 16, false, true},
                                         Case{Dtype::kF16, 17, 5, 8, true, true},
                                         Case{Dtype::kF16, 24, 2, 128, false, true},
                                         Case{Dtype::kF16, 20, 3, 12, true, true},
                                         Case{Dtype::kBF16, 40, 5, 32, true, true},
                                         Case{Dtype::kBF16, 33, 3, 16, false, true},
                                         Case{Dtype::kF32, 40, 5, 32, true, true},
                                         Case{Dtype::kF32, 33, 7, 16, false, true},
                                         Case{Dtype::kF32, 20, 3, 10, true, false}));

}  // namespace
}  // namespace fusec
