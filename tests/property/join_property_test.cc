// Products of one input by several matrices, with readers as in attention, mixtures and sums: after join-products they compute the same, in
// the interpreter and in kernels, with fewer launches.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/pass_checks.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class MixtureGenerator {
 public:
  explicit MixtureGenerator(uint64_t seed, Dtype dtype = Dtype::kF32)
      : random_(seed), dtype_(dtype), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("mixture_{}", seed);
    graph_->symbols = {{"batch", 0, 9000}};
  }

  std::unique_ptr<Graph> Run() {
    depth_ = random_.OneIn(4) ? 3 + random_.Below(60) : 100 + random_.Below(100);
    const Shape shape = random_.OneIn(2) ? Shape{Expr::Symbol("batch"), depth_} : Shape{Expr::Symbol("batch"), 3, depth_};
    input_ = graph_->AddInput("x", {dtype_, shape});
    const int64_t bias = random_.Below(4), activation = random_.Below(5), columns = 8 * (1 + random_.Below(6));
    for (int64_t i = 2 + random_.Below(4); i > 0; --i) {
      const int64_t own = random_.OneIn(4) ? columns + 1 + random_.Below(8) : columns;
      Value* product = Product(own, random_.OneIn(2));
      parts_.push_back(Activated(Biased(product, random_.OneIn(9) ? random_.Below(4) : bias, own),
                                 random_.OneIn(9) ? random_.Below(5) : activation));
    }
    for (size_t i = 0; i < parts_.size(); ++i) Read(i);
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
  Value* Product(int64_t columns, bool transposed) {
    Value* weights = Constant(transposed ? std::vector<int64_t>{columns, depth_} : std::vector<int64_t>{depth_, columns});
    return Make(OpKind::kMatMul, {input_, weights}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  }
  Value* Biased(Value* x, int64_t bias, int64_t columns) {
    if (bias == 1) return Make(OpKind::kAdd, {x, Constant({columns})});
    if (bias == 2) return Make(OpKind::kSub, {Constant({random_.OneIn(2) ? columns : 1}), x});
    return x;
  }
  Value* Activated(Value* x, int64_t activation) {
    if (activation == 0) return Make(OpKind::kRelu, {x});
    if (activation == 1) return Make(OpKind::kMul, {x, Make(OpKind::kSigmoid, {x})});
    if (activation == 2) return Make(OpKind::kTanh, {x});
    if (activation == 3) return Make(OpKind::kGelu, {x}, {{"approximate", std::string(random_.OneIn(2) ? "none" : "tanh")}});
    return x;
  }

  // Adds a reader of part number `i`, possibly together with the part before.
  void Read(size_t i) {
    Value* part = parts_[i];
    const int64_t rank = static_cast<int64_t>(part->type.shape.size());
    const Expr columns = part->type.shape.back();
    switch (random_.Below(6)) {
      case 0:
        if (i > 0 && parts_[i - 1]->type == part->type)
          return Return(Make(OpKind::kConcat, {parts_[i - 1], part}, {{"axis", rank - 1}}));
        return Return(Sum(part));
      case 1:  // scores of rows beside those before
        if (i > 0 && parts_[i - 1]->type == part->type && rank == 3)
          return Return(Make(OpKind::kMatMul, {parts_[i - 1], part}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}}));
        return Return(Sum(part));
      case 2:
        if (random_.OneIn(3)) return Return(part);
        return Return(Sum(Make(OpKind::kMul, {part, part})));
      case 3:
        if (random_.OneIn(3) && part->type == parts_[0]->type && i > 0) return Return(Make(OpKind::kAdd, {part, parts_[0]}));
        return Return(Sum(part));
      case 4:
        return Return(Make(OpKind::kReshape, {Sum(part)}, {{"shape", Shape{Expr::Symbol("batch"), rank == 2 ? 1 : 3, 1}}}));
      default:
        return Return(Make(OpKind::kReduceMax, {part}, {{"axes", std::vector<int64_t>{rank - 1}}, {"keepdims", int64_t{1}}}));
    }
  }
  Value* Sum(Value* x) {
    const int64_t last = static_cast<int64_t>(x->type.shape.size()) - 1;
    return Make(OpKind::kReduceSum, {x}, {{"axes", std::vector<int64_t>{last}}, {"keepdims", int64_t{0}}});
  }

  Random random_;
  const Dtype dtype_;
  std::unique_ptr<Graph> graph_;
  Value* input_ = nullptr;
  int64_t depth_ = 0;
  ValueList parts_;
};

TEST(JoinProperty, JoinedProductsComputeTheSame) {
  ExpectSameMeaning([](uint64_t seed) { return MixtureGenerator(seed).Run(); }, "join-products", 4);
}

// Tolerances as in tests/property/codegen_property_test.cc.
TEST(JoinProperty, CpuAnswersMatch) {
  for (const uint64_t seed : SeedsToRun(12))
    ExpectRightAnswers(*MixtureGenerator(seed).Run(), RunOn::kCpu, "highest", seed, {0, 1, 7, 33}, 1e-5);
}

TEST(JoinProperty, GpuAnswersMatch) {
  for (const uint64_t seed : SeedsToRun(12)) {
    ExpectRightAnswers(*MixtureGenerator(seed).Run(), GpuOrItsText(), "highest", seed, {0, 1, 7, 33}, 1e-5);
    ExpectRightAnswers(*MixtureGenerator(seed, Dtype::kF16).Run(), GpuOrItsText(), "highest", seed, {0, 1, 7, 33}, 1e-3);
  }
}

// Joined products never take more launches than separate ones.
TEST(JoinProperty, NeverLaunchesMore) {
  const auto make = [](uint64_t seed) { return MixtureGenerator(seed, seed % 2 == 0 ? Dtype::kF32 : Dtype::kF16).Run(); };
  ExpectNoMoreLaunches(make, "join-products", 4);
}

}  // namespace
}  // namespace fusec
