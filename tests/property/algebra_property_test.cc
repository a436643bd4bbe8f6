// The passes that rewrite constant weights keep the meaning of graphs that are made for them: layers with scales, shifts, views and
// normalizations around them, a few of which the passes must leave alone.
#include <gtest/gtest.h>

#include <cmath>

#include "passes/pass_manager.h"
#include "passes/passes.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

constexpr const char* kPasses[] = {"fold-scale", "fold-affine", "merge-linear", "drop-dead-columns",
                                   "pull-normalization"};

// A chain of layers on [batch, 3, k] or [batch, k].
class LayerGraph {
 public:
  explicit LayerGraph(uint64_t seed) : random_(seed), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("layers_{}", seed);
    graph_->symbols = {{"batch", 0, 16}};
    Shape shape = {Expr::Symbol("batch")};
    if (random_.OneIn(2)) shape.push_back(Expr(3));
    shape.push_back(Expr(1 + random_.Below(6)));
    Value* x = graph_->AddInput("x", {Dtype::kF64, shape});
    graph_->input_names = {"x"};
    for (int64_t layers = 1 + random_.Below(3); layers-- > 0;) x = Step(x);
    if (graph_->outputs.empty() || x->producer) Return(x);
  }
  std::unique_ptr<Graph> Take() { return std::move(graph_); }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  void Return(Value* value) {
    graph_->outputs.push_back(value);
    graph_->output_names.push_back(value->name);
  }
  static int64_t Last(const Value* x) { return *x->type.shape.back().AsConstant(); }

  // Multiples of 1/8, with `no_zero` without 0; now and then NaN or infinity.
  Value* Constant(std::vector<int64_t> dims, bool no_zero = false) {
    TensorData data(Dtype::kF64, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) {
      double value = random_.Eighths();
      if (no_zero && value == 0) value = 0.5;
      data.SetDouble(i, random_.OneIn(400) ? HUGE_VAL : value);
    }
    return Builder(*graph_).Constant(std::move(data));
  }
  Value* AlongColumns(const Value* x, bool no_zero) {
    if (random_.OneIn(3)) return Constant({}, no_zero);
    if (random_.OneIn(3)) return Constant({1, Last(x)}, no_zero);
    return Constant({Last(x)}, no_zero);
  }
  Value* Swapped(OpKind kind, Value* a, Value* b) {
    return random_.OneIn(2) ? Make(kind, {a, b}) : Make(kind, {b, a});
  }
  Value* Scale(Value* x) {
    if (random_.OneIn(3)) return Make(OpKind::kDiv, {x, AlongColumns(x, !random_.OneIn(8))});
    return Swapped(OpKind::kMul, x, AlongColumns(x, !random_.OneIn(8)));
  }
  Value* Shift(Value* x) { return Swapped(OpKind::kAdd, x, AlongColumns(x, false)); }

  // (x - mean) / sqrt(variance + 1)
  Value* Normalize(Value* x) {
    const Attributes row = {{"axes", std::vector<int64_t>{x->type.rank() - 1}},
                            {"keepdims", int64_t{1}}};
    Value* d = Make(OpKind::kSub, {x, Make(OpKind::kReduceMean, {x}, row)});
    Value* variance = Make(OpKind::kReduceMean, {Make(OpKind::kMul, {d, d})}, row);
    Value* one = Builder(*graph_).Scalar(Dtype::kF64, 1);
    return Make(OpKind::kDiv, {d, Make(OpKind::kSqrt, {Make(OpKind::kAdd, {variance, one})})});
  }
  Value* Layer(Value* x) {
    const int64_t columns = 1 + random_.Below(6);
    const bool transposed = random_.OneIn(2);
    std::vector<int64_t> dims = {Last(x), columns};
    if (transposed) std::swap(dims[0], dims[1]);
    Value* y = Make(OpKind::kMatMul, {x, Constant(dims)},
                    {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
    return random_.OneIn(2) ? Shift(y) : y;
  }
  Value* Joined(Value* x) {
    return Make(OpKind::kConcat, {Layer(x), x, Layer(x)}, {{"axis", x->type.rank() - int64_t{1}}});
  }
  // The sum of two slices of the last axis.
  Value* Sliced(Value* x) {
    const int64_t count = 1 + random_.Below(Last(x));
    Value* parts[2];
    for (Value*& part : parts) {
      Shape shape = x->type.shape;
      Exprs starts(shape.size(), 0);
      starts.back() = random_.Below(Last(x) - count + 1);
      shape.back() = count;
      part = Make(OpKind::kSlice, {x},
                  {{"starts", starts}, {"shape", shape}, {"steps", std::vector<int64_t>(shape.size(), 1)}});
    }
    return Make(OpKind::kAdd, {parts[0], parts[1]});
  }
  Value* Step(Value* x) {
    if (random_.OneIn(5)) return Layer(Layer(x));
    if (random_.OneIn(2)) x = Normalize(x);
    if (random_.OneIn(2)) x = Scale(x);
    if (random_.OneIn(2)) x = Shift(x);
    if (random_.OneIn(6)) Return(x);
    if (x->type.rank() == 3 && random_.OneIn(2)) {
      const Shape& shape = x->type.shape;
      x = Make(OpKind::kReshape, {x}, {{"shape", Shape{shape[0] * shape[1], shape[2]}}});
    }
    Value* y = Layer(x);
    if (random_.OneIn(4)) Return(Layer(x));
    if (y->type.rank() == 3 && random_.OneIn(3)) {
      y = Make(OpKind::kTranspose, {y}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
      y = Scale(y);
      y = Make(OpKind::kTranspose, {y}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    }
    if (random_.OneIn(2)) y = Scale(y);
    if (random_.OneIn(2)) y = Shift(y);
    if (random_.OneIn(4)) y = Joined(y);
    if (random_.OneIn(3)) return Sliced(y);
    return random_.OneIn(3) ? Make(OpKind::kRelu, {y}) : y;
  }

  Random random_;
  std::unique_ptr<Graph> graph_;
};

bool AllFinite(ArrayRef<ReferenceTensor> tensors) {
  for (const ReferenceTensor& tensor : tensors) {
    for (const double value : tensor.reals) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

TEST(AlgebraProperty, WeightsTakeScalesInWithoutChangingAnswers) {
  std::map<std::string, int> changes;
  const std::vector<uint64_t> seeds = SeedsToRun(2000);
  for (const uint64_t seed : seeds) {
    const auto original = LayerGraph(seed).Take();
    const NowTrying trying(seed, *original);
    ASSERT_TRUE(Verify(*original).has_value());
    for (const char* name : kPasses) {
      const auto graph = original->Clone();
      PassReport report;
      const auto changed = FindPass(name)->run(*graph, {}, report);
      ASSERT_TRUE(changed.has_value()) << changed.error().message;
      if (!*changed) continue;
      ++changes[name];
      // After rewriting, an infinite activation is multiplied by other weights, and infinities of both signs give NaN.
      const bool pass_may_lose_infinities =
          name == std::string("merge-linear") || name == std::string("pull-normalization");
      ASSERT_TRUE(Verify(*graph).has_value()) << Verify(*graph).error().message;
      for (const int64_t batch : {0, 1, 3}) {
        const auto inputs = RandomInputs(*original, seed, {{"batch", batch}});
        const auto expected = Interpret(*original, inputs);
        const auto found = Interpret(*graph, inputs);
        ASSERT_TRUE(expected.has_value() && found.has_value());
        if (pass_may_lose_infinities && !AllFinite(*expected)) continue;
        ASSERT_EQ(FirstDifference(*expected, *found), "") << name << " made of it\n"
                                                          << Print(*graph);
      }
    }
  }
  if (seeds.size() < 100) return;
  for (const char* name : kPasses)
    EXPECT_GT(changes[name], static_cast<int>(seeds.size()) / 20) << name;
}

}  // namespace
}  // namespace fusec
