// Products of constants and matrices of a batch keep their meaning as products of rows, whatever is around them: products of two values'
// channels, broadcasting pointwise ops, views, sums along any axes, and readers that need the original order.
#include <gtest/gtest.h>

#include "passes/pass_manager.h"
#include "passes/passes.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// Values of [batch, .., channels, positions].
class ChannelGraph {
 public:
  explicit ChannelGraph(uint64_t seed) : random_(seed), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("channels_{}", seed);
    graph_->symbols = {{"batch", 0, 16}};
    batch_ = {Expr::Symbol("batch")};
    if (random_.OneIn(3)) batch_.push_back(Expr(2));
    positions_ = 1 + random_.Below(4);
    for (int i = 0; i < 2; ++i) values_.push_back(graph_->AddInput("x", {Dtype::kF64, Of({1 + random_.Below(8)})}));
    for (int64_t steps = 2 + random_.Below(8); steps-- > 0;) values_.push_back(Step());
    Return(values_.back());
    if (random_.OneIn(2)) Return(Any());
  }
  std::unique_ptr<Graph> Take() { return std::move(graph_); }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  Value* Reshape(Value* x, Shape shape) { return Make(OpKind::kReshape, {x}, {{"shape", std::move(shape)}}); }
  void Return(Value* value) {
    graph_->outputs.push_back(value);
    graph_->output_names.push_back(value->name);
  }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(Dtype::kF64, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths());
    return Builder(*graph_).Constant(std::move(data));
  }
  Value* Any() { return random_.From(values_); }
  int64_t Channels(const Value* x) const { return *x->type.shape[batch_.size()].AsConstant(); }
  // [batch, .., axes, positions]
  Shape Of(const std::vector<int64_t>& axes) const {
    Shape shape = batch_;
    for (const int64_t axis : axes) shape.push_back(Expr(axis));
    shape.push_back(Expr(positions_));
    return shape;
  }
  int64_t rank() const { return static_cast<int64_t>(batch_.size()) + 2; }

  Value* Step() {
    switch (random_.Below(5)) {
      case 0:
        return Pairs();
      case 1:
        return Sum();
      case 2:
        return Pointwise();
      default:
        return Product();
    }
  }

  // The products of all pairs of two values' channels at the same position.
  Value* Pairs() {
    Value *a = Any(), *b = Any();
    const int64_t first = Channels(a), second = Channels(b);
    if (first * second > 64) return Make(OpKind::kRelu, {a});
    Value* products = Make(OpKind::kMul, {Reshape(a, Of({first, 1})), Reshape(b, Of({1, second}))});
    return Reshape(products, Of({first * second}));
  }

  Value* Product() {
    Value* x = random_.OneIn(2) ? Pairs() : Any();
    const int64_t channels = Channels(x), results = 1 + random_.Below(3);
    const bool turned = random_.OneIn(3), has_rows = random_.OneIn(4);
    Value* weights = turned ? Constant({channels, results}) : Constant({results, channels});
    if (has_rows) {
      std::vector<int64_t> perm;
      for (int64_t axis = 0; axis < rank(); ++axis) perm.push_back(axis);
      std::swap(perm[rank() - 2], perm[rank() - 1]);
      x = Make(OpKind::kTranspose, {x}, {{"perm", perm}});
    }
    return Make(OpKind::kMatMul, {weights, x}, {{"transpose_a", int64_t{turned}}, {"transpose_b", int64_t{has_rows}}});
  }

  Value* Pointwise() {
    Value* x = Any();
    if (random_.OneIn(3)) return Make(OpKind::kRelu, {x});
    const std::vector<Value*> others = {Constant({Channels(x), 1}), Constant({positions_}), Constant({}),
                                        Constant({1, Channels(x), positions_}), Any()};
    Value* other = random_.From(others);
    if (other->producer && other->producer->kind != OpKind::kConstant && Channels(other) != Channels(x) && Channels(other) != 1)
      other = x;
    const OpKind kind = random_.OneIn(2) ? OpKind::kAdd : OpKind::kMul;
    if (!other->producer && Channels(other) != Channels(x)) return Make(OpKind::kRelu, {x});
    return random_.OneIn(2) ? Make(kind, {x, other}) : Make(kind, {other, x});
  }

  // A sum that is an output, or one that is combined with the value from which it was made.
  Value* Sum() {
    Value* x = Any();
    std::vector<int64_t> axes = {rank() - 1};
    if (random_.OneIn(3)) axes.insert(axes.begin(), rank() - 2);
    if (random_.OneIn(4)) axes = {rank() - 2};
    const bool keeps = random_.OneIn(2);
    const OpKind kind = random_.OneIn(2) ? OpKind::kReduceSum : OpKind::kReduceMax;
    Value* sum = Make(kind, {x}, {{"axes", axes}, {"keepdims", int64_t{keeps}}});
    if (!keeps) {
      Return(sum);
      return Make(OpKind::kNeg, {x});
    }
    return Make(OpKind::kSub, {x, sum});
  }

  Random random_;
  std::unique_ptr<Graph> graph_;
  Shape batch_;
  int64_t positions_ = 1;
  std::vector<Value*> values_;
};

TEST(ChannelsLastProperty, ProductsOfRowsKeepTheMeaning) {
  int turned = 0, ordered = 0;
  for (const uint64_t seed : SeedsToRun(1500)) {
    const auto graph = ChannelGraph(seed).Take();
    const NowTrying trying(seed, *graph);
    ASSERT_TRUE(Verify(*graph).has_value()) << Verify(*graph).error().message;
    const auto rewritten = graph->Clone();
    PassReport report;
    turned += *ChannelsLast(*rewritten, {}, report) ? 1 : 0;
    ASSERT_TRUE(Verify(*rewritten).has_value()) << Verify(*rewritten).error().message << "\n" << Print(*rewritten);
    ordered += *OrderPairs(*rewritten, {}, report) ? 1 : 0;
    ASSERT_TRUE(Verify(*rewritten).has_value()) << Verify(*rewritten).error().message << "\n" << Print(*rewritten);
    for (const int64_t batch : {0, 1, 3}) {
      const auto inputs = RandomInputs(*graph, seed, {{"batch", batch}});
      const auto expected = Interpret(*graph, inputs), found = Interpret(*rewritten, inputs);
      ASSERT_TRUE(expected && found);
      ASSERT_EQ(FirstDifference(*expected, *found, 1e-9), "") << Print(*rewritten);
    }
  }
  EXPECT_GT(turned, 0);
  EXPECT_GT(ordered, 0);
}

}  // namespace
}  // namespace fusec
