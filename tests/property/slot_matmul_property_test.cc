// Layers with adapters in slots: the rows of a batch use different adapters, and some use none.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

struct Layer {
  Dtype dtype;
  int64_t inputs, outputs, rank;
  int64_t tokens = 0;      // rows of the layer for each of the batch; 0: one, without an axis
  bool transposed = false;  // the rows are a transposed view of what is in memory
};

constexpr int64_t kSlots = 5;

class Layers {
 public:
  explicit Layers(const Layer& layer) : layer_(layer), random_(7), graph_(std::make_unique<Graph>()), builder_(*graph_) {
    graph_->name = "adapters";
    graph_->symbols = {{"batch", 0, 9000}};
  }

  // relu(x W + b + (x A) B), with A and B of each row's slot.
  std::unique_ptr<Graph> Make() {
    const Expr batch = Expr::Symbol("batch");
    Value* x = nullptr;
    if (layer_.tokens == 0) x = graph_->AddInput("x", {layer_.dtype, {batch, layer_.inputs}});
    else if (!layer_.transposed) x = graph_->AddInput("x", {layer_.dtype, {batch, layer_.tokens, layer_.inputs}});
    else x = Turned(graph_->AddInput("x", {layer_.dtype, {batch, 4, layer_.tokens, layer_.inputs / 4}}));
    Value* slots = graph_->AddInput("slots", {Dtype::kI32, {batch}});
    Value* base = builder_.Make(OpKind::kMatMul, {x, Weights({layer_.inputs, layer_.outputs})},
                                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
    Value* biased = builder_.Make(OpKind::kAdd, {base, Weights({layer_.outputs})});
    Value* down = Product(x, Weights({kSlots, layer_.rank, layer_.inputs}), slots, 1);
    Value* delta = Product(down, Weights({kSlots, layer_.outputs, layer_.rank}), slots, 1);
    graph_->outputs = {builder_.Make(OpKind::kRelu, {builder_.Make(OpKind::kAdd, {biased, delta})})};
    graph_->output_names = {"y"};
    return std::move(graph_);
  }

 private:
  Value* Turned(Value* heads) {
    Value* turned = builder_.Make(OpKind::kTranspose, {heads}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return builder_.Make(OpKind::kReshape, {turned},
                         {{"shape", Shape{Expr::Symbol("batch"), layer_.tokens, layer_.inputs}}});
  }
  Value* Product(Value* rows, Value* bank, Value* slots, int64_t transposed) {
    return builder_.Make(OpKind::kSlotMatMul, {rows, bank, slots}, {{"transpose_b", transposed}});
  }
  Value* Weights(std::vector<int64_t> dims) {
    TensorData data(layer_.dtype, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 16);
    return builder_.Constant(std::move(data));
  }

  const Layer layer_;
  Random random_;
  std::unique_ptr<Graph> graph_;
  Builder builder_;
};

class SlotMatMul : public testing::TestWithParam<Layer> {};

void ExpectAnswersOf(const Layer& layer, RunOn where, std::initializer_list<int64_t> batches) {
  const auto graph = Layers(layer).Make();
  const double tolerance = layer.dtype == Dtype::kF32 ? 1e-5 : layer.dtype == Dtype::kF16 ? 4e-3 : 3e-2;
  const auto compiled = CompiledGraphs::Make({graph.get()}, where, {}, "highest");
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t batch : batches) {
    if (batch > 100 && layer.tokens != 0) continue;
    auto inputs = RandomInputs(*graph, /*seed=*/batch, {{"batch", batch}});
    // Rows side by side share a slot in some tiles and none in others.
    for (int64_t row = 0; row < batch; ++row) inputs[1].ints[row] = (row < 16 ? row / 5 : row * 7) % (kSlots + 1) - 1;
    ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, "batch " + std::to_string(batch));
  }
}

TEST_P(SlotMatMul, AnswersMatch) {
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) ExpectAnswersOf(GetParam(), where, {0, 1, 3, 16, 17, 40, 2500});
}

// Tiles by warpgroups and by warps, clusters among them.
TEST(SlotMatMulInEmulation, AnswersMatch) { ExpectAnswersOf({Dtype::kF16, 128, 256, 16}, RunOn::kEmulatedGpu, {3, 40, 700}); }

INSTANTIATE_TEST_SUITE_P(
    All, SlotMatMul,
    testing::Values(Layer{Dtype::kF16, 256, 144, 16}, Layer{Dtype::kBF16, 320, 264, 8}, Layer{Dtype::kF16, 72, 520, 40},
                    Layer{Dtype::kF16, 128, 384, 16, /*tokens=*/7}, Layer{Dtype::kF16, 320, 512, 16},
                    Layer{Dtype::kBF16, 512, 256, 40},
                    Layer{Dtype::kF16, 128, 384, 16, /*tokens=*/5, /*transposed=*/true},
                    Layer{Dtype::kF16, 30, 18, 5, /*tokens=*/3}, Layer{Dtype::kF32, 128, 96, 16, /*tokens=*/3},
                    Layer{Dtype::kF32, 256, 144, 24, /*tokens=*/70}));

// The contents of a slot do not affect rows with another slot, even if they are infinite or NaN.
void ExpectBadOnesToStay(Dtype dtype) {
  constexpr int64_t kTerms = 256, kColumns = 16, kRows = 33;
  Graph graph;
  graph.symbols = {{"batch", 0, 9000}};
  Builder builder(graph);
  TensorData bank(dtype, {3, kTerms, kColumns});
  for (int64_t i = 0; i < bank.element_count(); ++i) {
    const int64_t slot = i / (kTerms * kColumns);
    bank.SetDouble(i, slot == 1 ? (i % 2 == 0 ? INFINITY : NAN) : 0.25);
  }
  Value* x = graph.AddInput("x", {dtype, {Expr::Symbol("batch"), kTerms}});
  Value* slots = graph.AddInput("slots", {Dtype::kI32, {Expr::Symbol("batch")}});
  graph.outputs = {builder.Make(OpKind::kSlotMatMul, {x, builder.Constant(std::move(bank)), slots},
                                {{"transpose_b", int64_t{0}}})};
  graph.output_names = {"y"};
  const auto compiled = CompiledGraphs::Make({&graph}, GpuOrItsText(), {}, "highest");
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  ReferenceTensor rows(dtype, {kRows, kTerms}), chosen(Dtype::kI32, {kRows});
  for (double& element : rows.reals) element = 0.5;
  for (int64_t row = 0; row < kRows; ++row) chosen.ints[row] = row % 4 - 1;
  ExpectAnswers(**compiled, {&graph}, {{rows, chosen}}, 1e-3, "");
}

TEST(SlotMatMulOfBadAdapters, StayInTheirRows) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kF32}) ExpectBadOnesToStay(dtype);
}

}  // namespace
}  // namespace fusec
