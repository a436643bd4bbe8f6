// Two products of the same rows that the ops behind them combine, as the gate of a SwiGLU layer does: after fuse-paired-products they
// compute the same, in the interpreter and in kernels of all kinds.
#include <gtest/gtest.h>

#include "compiler/reference/interpreter.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/pass_checks.h"
#include "tests/property/random_generator.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class GateGenerator {
 public:
  explicit GateGenerator(uint64_t seed, Dtype dtype = Dtype::kF32) : random_(seed), dtype_(dtype), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("gate_{}", seed);
    graph_->symbols = {{"batch", 0, random_.OneIn(2) ? 64 : 9000}};
  }

  std::unique_ptr<Graph> Run() {
    depth_ = random_.OneIn(4) ? 1 + random_.Below(60) : 8 * (1 + random_.Below(40));
    columns_ = random_.OneIn(5) ? 1 + random_.Below(60) : 4 * (1 + random_.Below(60));
    shape_ = {Expr::Symbol("batch")};
    if (random_.OneIn(3)) shape_.push_back(1 + random_.Below(5));
    if (random_.OneIn(4)) shape_.push_back(1 + random_.Below(3));
    Shape rows = shape_;
    rows.push_back(depth_);
    shape_.push_back(columns_);
    input_ = graph_->AddInput("x", {dtype_, rows});
    Value *gate = nullptr, *other = nullptr;
    if (random_.OneIn(3)) {
      Value* both = Product(2 * columns_);
      gate = Half(both, 0);
      other = Half(both, columns_);
    } else {
      gate = Product(columns_);
      other = Product(columns_);
    }
    if (random_.OneIn(3)) gate = Make(OpKind::kAdd, {gate, Constant({columns_})});
    if (random_.OneIn(3)) other = Make(OpKind::kAdd, {other, Constant({columns_})});
    Value* y = Combined(gate, Activated(gate));
    y = Combined(y, random_.OneIn(3) ? Activated(other) : other);
    if (random_.OneIn(3)) y = Make(OpKind::kAdd, {y, graph_->AddInput("residual", {dtype_, shape_})});
    if (random_.OneIn(8)) Return(gate);
    Return(y);
    return std::move(graph_);
  }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  void Return(Value* value) {
    graph_->outputs.push_back(value);
    graph_->output_names.push_back(fmt::format("y{}", graph_->outputs.size()));
  }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(dtype_, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 4);
    return Builder(*graph_).Constant(std::move(data));
  }
  Value* Product(int64_t columns) {
    return Make(OpKind::kMatMul, {input_, Constant({columns, depth_})}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  }
  Value* Half(Value* both, int64_t first) {
    Exprs starts(shape_.size(), 0);
    starts.back() = first;
    return Make(OpKind::kSlice, {both},
                {{"starts", starts}, {"steps", std::vector<int64_t>(shape_.size(), 1)}, {"shape", shape_}});
  }
  Value* Activated(Value* x) {
    constexpr OpKind kKinds[] = {OpKind::kSigmoid, OpKind::kTanh, OpKind::kRelu};
    if (random_.OneIn(5)) return Make(OpKind::kGelu, {x}, {{"approximate", std::string("none")}});
    return Make(kKinds[random_.Below(3)], {x});
  }
  Value* Combined(Value* a, Value* b) {
    constexpr OpKind kKinds[] = {OpKind::kMul, OpKind::kAdd, OpKind::kSub};
    return Make(kKinds[random_.OneIn(2) ? 0 : random_.Below(3)], {a, b});
  }

  Random random_;
  const Dtype dtype_;
  std::unique_ptr<Graph> graph_;
  Shape shape_;
  Value* input_ = nullptr;
  int64_t depth_ = 0, columns_ = 0;
};

TEST(PairedProductsProperty, FusedPairsComputeTheSame) {
  ExpectSameMeaning([](uint64_t seed) { return GateGenerator(seed).Run(); }, "fuse-paired-products", 2);
}

// Tolerances as in tests/property/codegen_property_test.cc. The batches take the kernels for one row, few rows, and tiles.
TEST(PairedProductsProperty, GpuAnswersMatch) {
  for (const uint64_t seed : SeedsToRun(8)) {
    for (const char* precision : {"highest", "high"})
      ExpectRightAnswers(*GateGenerator(seed).Run(), GpuOrItsText(), precision, seed, {0, 1, 5, 33, 64}, precision[4] == 'e' ? 1e-5 : 4e-3);
    ExpectRightAnswers(*GateGenerator(seed, Dtype::kF16).Run(), GpuOrItsText(), "highest", seed, {0, 1, 5, 33, 64}, 2e-3);
  }
}

// All kernels that tuning would try.
TEST(PairedProductsProperty, OtherKernelsMatch) {
  for (const uint64_t seed : SeedsToRun(3)) {
    const auto graph = GateGenerator(seed, seed % 2 == 0 ? Dtype::kF32 : Dtype::kF16).Run();
    const auto inputs = RandomInputs(*graph, seed, {{"batch", 21}});
    const auto expected = Interpret(*graph, inputs), rounded = InterpretRounded(*graph, inputs);
    ASSERT_TRUE(expected.has_value() && rounded.has_value());
    for (size_t candidate = 0; candidate < 12; ++candidate) {
      const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), {}, "highest", candidate);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
      const auto found = (*compiled)->Run({inputs});
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[0], seed % 2 == 0 ? 1e-5 : 2e-3), "") << candidate << " of seed " << seed;
    }
  }
}

TEST(PairedProductsProperty, NeverLaunchesMore) {
  const auto make = [](uint64_t seed) { return GateGenerator(seed, seed % 2 == 0 ? Dtype::kF32 : Dtype::kF16).Run(); };
  ExpectNoMoreLaunches(make, "fuse-paired-products", 4);
}

}  // namespace
}  // namespace fusec
