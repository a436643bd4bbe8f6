// Rows of a batch with many lines each, which all go through the same layers: block programs compute them on tensor cores, with weights
// that are kept in shared memory for all rows.
#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "compiler/support/gpu.h"
#include "passes/pass_manager.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class HistoryGenerator {
 public:
  HistoryGenerator(uint64_t seed, Dtype dtype)
      : random_(seed),
        dtype_(dtype),
        graph_(std::make_unique<Graph>()),
        lines_(16 + random_.Below(49)),
        width_(8 * (2 + random_.Below(4))) {
    graph_->name = fmt::format("history_{}", seed);
    graph_->symbols = {{"batch", 0, 9000}};
  }

  std::unique_ptr<Graph> Run() {
    Value* history = random_.OneIn(2) ? LookedUp() : Input({lines_, width_});
    Value* x = random_.OneIn(2) ? Beside(history) : history;
    for (int64_t layer = random_.Below(3); layer >= 0; --layer) x = Layer(x);
    switch (random_.Below(4)) {
      case 0:
        Return(x);
        break;
      case 1:
        Return(Pooled(x, history));
        break;
      case 2:
        Return(Layer(Attended(x)));
        break;
      default:
        Return(Make(OpKind::kReduceMean, {x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}}));
    }
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
  static Shape Rows(Shape inner) {
    inner.insert(inner.begin(), Expr::Symbol("batch"));
    return inner;
  }
  Value* Input(ShapeRef inner) { return graph_->AddInput(graph_->UniqueName("x"), {dtype_, Rows(Shape(inner))}); }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(dtype_, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 8);
    return Builder(*graph_).Constant(std::move(data));
  }
  static int64_t Width(const Value* x) { return *x->type.shape.back().AsConstant(); }
  Value* Product(Value* x, Value* y, bool transposed) {
    return Make(OpKind::kMatMul, {x, y}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  }

  Value* LookedUp() {
    Value* ids = graph_->AddInput("ids", {Dtype::kI64, Rows({lines_})});
    return Make(OpKind::kGather, {Constant({11, width_}), ids}, {{"axis", int64_t{0}}});
  }
  // Concatenated with its products with a target, as in target attention.
  Value* Beside(Value* history) {
    return Make(OpKind::kConcat, {history, Make(OpKind::kMul, {history, Input({1, width_})})}, {{"axis", int64_t{2}}});
  }
  Value* Layer(Value* x) {
    const int64_t columns = random_.OneIn(2) ? 8 * (2 + random_.Below(9)) : 16 + random_.Below(60);
    const bool transposed = random_.OneIn(2);
    std::vector<int64_t> dims = {Width(x), columns};
    if (transposed) std::swap(dims[0], dims[1]);
    Value* y = Product(x, Constant(dims), transposed);
    if (random_.OneIn(2)) y = Make(OpKind::kAdd, {y, Constant({columns})});
    if (random_.OneIn(2)) y = Make(random_.OneIn(2) ? OpKind::kRelu : OpKind::kTanh, {y});
    if (columns == Width(x) && random_.OneIn(2)) y = Make(OpKind::kAdd, {y, x});
    if (random_.OneIn(8)) Return(y);
    return y;
  }
  // The mean of the history under softmax of a number for each line.
  Value* Pooled(Value* x, Value* history) {
    Value* scores = Make(OpKind::kReshape, {Product(x, Constant({Width(x), 1}), false)}, {{"shape", Rows({1, lines_})}});
    return Product(Make(OpKind::kSoftmax, {scores}, {{"axis", int64_t{2}}}), history, false);
  }
  Value* Attended(Value* x) {
    Value* scores = Product(x, random_.OneIn(2) ? x : Make(OpKind::kTanh, {x}), true);
    return Product(Make(OpKind::kSoftmax, {scores}, {{"axis", int64_t{2}}}), x, false);
  }

  Random random_;
  const Dtype dtype_;
  std::unique_ptr<Graph> graph_;
  const int64_t lines_, width_;
};

void Compare(uint64_t seed, Dtype dtype, const std::string& precision, double relative) {
  const auto graph = HistoryGenerator(seed, dtype).Run();
  const NowTrying trying(seed, *graph);
  ExpectRightAnswers(*graph, GpuOrItsText(), precision, seed, {0, 1, 3, 70}, relative);
}

// Tolerances as in tests/codegen/goldens_test.cc.
TEST(SharedProductProperty, HistoriesMatch) {
  for (const uint64_t seed : SeedsToRun(10)) {
    Compare(seed, Dtype::kF32, "highest", 1e-5);
    Compare(seed, Dtype::kF32, "high", 4e-3);
    Compare(seed, Dtype::kF16, "highest", 4e-3);
  }
}

// Most of them are one launch, or two.
TEST(SharedProductProperty, HistoriesAreBlockPrograms) {
  size_t regions = 0;
  const std::vector<uint64_t> seeds = SeedsToRun(60);
  for (const uint64_t seed : seeds) {
    const auto graph = HistoryGenerator(seed, Dtype::kF32).Run();
    PassManager manager;
    manager.options.block_shared_bytes = GpuFor("sm_90a").block_shared_bytes;
    ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    for (const auto& node : graph->nodes) regions += node->kind == OpKind::kRegion;
  }
  EXPECT_LT(regions, 2 * seeds.size());
}

}  // namespace
}  // namespace fusec
