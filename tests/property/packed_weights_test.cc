// Products by weights of 4 bits, which kernels for few rows dequantize themselves and others read
// dequantized.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/join_products.h"
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

// Makes graphs of products by packed weights of the rows x.
class Layers {
 public:
  Layers(const Case& c, uint64_t seed)
      : case_(c), graph_(std::make_unique<Graph>()), builder_(*graph_), random_(seed) {
    graph_->name = "packed";
    graph_->symbols = {{"batch", 0, 9000}};
    x_ = graph_->AddInput("x", {c.dtype, {Expr::Symbol("batch"), c.blocks * c.block}});
  }

  // x W^T, with W of `columns` rows of `blocks` blocks, each with its scale.
  Value* Product() {
    const Case& c = case_;
    TensorData bytes(Dtype::kU8, {c.columns, c.blocks, c.block / 2});
    for (int64_t i = 0; i < bytes.element_count(); ++i) bytes.SetInt(i, random_.Below(256));
    Value* codes = builder_.Make(OpKind::kUnpackInt4, {builder_.Constant(std::move(bytes))},
                                 {{"columns", c.block}});
    Value* real = builder_.Make(OpKind::kCast, {codes}, {{"to", c.dtype}});
    const std::vector<int64_t> per_block = {c.columns, c.blocks, 1};
    if (c.has_zeros) {
      Value* zeros = Weights(per_block, [&] {
        return static_cast<double>(random_.Below(16)) + (c.are_integers ? 0 : 0.25);
      });
      real = builder_.Make(OpKind::kSub, {real, zeros});
    }
    Value* scales =
        Weights(per_block, [&] { return static_cast<double>(1 + random_.Below(7)) / 256; });
    Value* scaled = builder_.Make(OpKind::kMul, {real, scales});
    Value* matrix = builder_.Make(OpKind::kReshape, {scaled},
                                  {{"shape", Shape{c.columns, c.blocks * c.block}}});
    return builder_.Make(OpKind::kMatMul, {x_, matrix},
                         {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  }

  // relu(x W^T + b)
  std::unique_ptr<Graph> WithBias() {
    Value* product = Product();
    Value* bias = Weights({case_.columns}, [&] { return random_.Eighths(); });
    return Finish(Make(OpKind::kRelu, {Make(OpKind::kAdd, {product, bias})}));
  }

  // silu(x V^T) * (x W^T)
  std::unique_ptr<Graph> Gated() {
    Value *gate = Product(), *up = Product();
    Value* silu = Make(OpKind::kMul, {gate, Make(OpKind::kSigmoid, {gate})});
    return Finish(Make(OpKind::kMul, {silu, up}));
  }

 private:
  Value* Make(OpKind kind, ArrayRef<Value*> operands) { return builder_.Make(kind, operands); }

  template <class Number>
  Value* Weights(std::vector<int64_t> dims, Number number) {
    TensorData data(case_.dtype, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, number());
    return builder_.Constant(std::move(data));
  }

  std::unique_ptr<Graph> Finish(Value* y) {
    graph_->outputs = {y};
    graph_->output_names = {"y"};
    return std::move(graph_);
  }

  const Case case_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  Random random_;
  Value* x_ = nullptr;
};

double ToleranceOf(Dtype dtype) {
  return dtype == Dtype::kF32 ? 1e-5 : dtype == Dtype::kF16 ? 2e-3 : 1.6e-2;
}

void ExpectAnswersMatch(const Graph& graph, Dtype dtype) {
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    SCOPED_TRACE(where == RunOn::kCpu ? "cpu" : "gpu");
    ExpectRightAnswers(graph, where, "highest", /*seed=*/1, {0, 1, 3, 8, 9, 16, 30, 33, 70},
                       ToleranceOf(dtype));
  }
}

class PackedWeights : public testing::TestWithParam<Case> {};

TEST_P(PackedWeights, AnswersMatch) {
  ExpectAnswersMatch(*Layers(GetParam(), 1).WithBias(), GetParam().dtype);
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

int Products(const Graph& graph) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(),
                    [](const auto& node) { return node->kind == OpKind::kMatMul; }));
}

TEST(PackedGates, BecomeOneProductInHalfPrecision) {
  const Case half{Dtype::kF16, 48, 4, 32, true, true}, single{Dtype::kF32, 48, 4, 32, true, true};
  PassReport report;
  auto graph = Layers(half, 1).Gated();
  ASSERT_TRUE(JoinProducts(*graph, {}, report).has_value());
  EXPECT_EQ(Products(*graph), 1);
  graph = Layers(single, 1).Gated();  // generated kernels do the gate behind a product
  ASSERT_TRUE(JoinProducts(*graph, {}, report).has_value());
  EXPECT_EQ(Products(*graph), 2);
}

TEST(PackedGates, AnswersMatch) {
  const Case half{Dtype::kF16, 48, 4, 32, true, true}, bf16{Dtype::kBF16, 40, 5, 32, false, true};
  for (const Case& c : {half, bf16}) ExpectAnswersMatch(*Layers(c, 2).Gated(), c.dtype);
}

}  // namespace
}  // namespace fusec
