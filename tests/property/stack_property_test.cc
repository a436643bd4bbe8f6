// Several, mostly equal, chains of layers: after stack-products they compute the same, in the interpreter and with the kernels planned for
// a GPU.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/pass_checks.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class TowersGenerator {
 public:
  explicit TowersGenerator(uint64_t seed, Dtype dtype = Dtype::kF32)
      : random_(seed), dtype_(dtype), graph_(std::make_unique<Graph>()) {
    graph_->name = fmt::format("towers_{}", seed);
    graph_->symbols = {{"batch", 0, 9000}};
  }

  std::unique_ptr<Graph> Run() {
    shared_ = random_.OneIn(3);
    first_ = Input(44 + random_.Below(9));
    other_ = Input(44);
    const int64_t chains = 2 + random_.Below(3);
    for (int64_t i = 0; i < chains; ++i) tops_.push_back(shared_ ? first_ : Bottom());
    for (int64_t layer = 1 + random_.Below(3); layer > 0; --layer) AddLayers();
    switch (random_.Below(4)) {
      case 0:
        for (Value* top : tops_) Return(top);
        break;
      case 1:
        Return(Make(OpKind::kConcat, tops_, {{"axis", int64_t{1}}}));
        break;
      case 2:
        for (Value* top : tops_) Return(Sum(Make(OpKind::kMul, {top, top})));
        break;
      default:
        for (size_t i = 1; i < tops_.size(); ++i) tops_[0] = Make(OpKind::kAdd, {tops_[0], tops_[i]});
        Return(random_.OneIn(2) ? tops_[0] : Product(tops_[0], 3, false));
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
  Value* Input(int64_t columns) {
    return graph_->AddInput(graph_->UniqueName("x"), {dtype_, {Expr::Symbol("batch"), columns}});
  }
  Value* Constant(std::vector<int64_t> dims) {
    TensorData data(dtype_, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 4);
    return Builder(*graph_).Constant(std::move(data));
  }
  static int64_t Columns(const Value* x) { return *x->type.shape[1].AsConstant(); }
  Value* Sum(Value* x) {
    return Make(OpKind::kReduceSum, {x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  }
  Value* Product(Value* x, int64_t columns, bool transposed) {
    std::vector<int64_t> dims = {Columns(x), columns};
    if (transposed) std::swap(dims[0], dims[1]);
    return Make(OpKind::kMatMul, {x, Constant(dims)},
                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{transposed}}});
  }

  // The input of a chain, with 44 to 52 columns or, now and then, many more.
  Value* Bottom() {
    switch (random_.Below(5)) {
      case 0:
        return Make(OpKind::kTanh, {first_});
      case 1: {
        Value* ids = graph_->AddInput(graph_->UniqueName("ids"), {Dtype::kI64, {Expr::Symbol("batch")}});
        Value* row = Make(OpKind::kGather, {Constant({7, 40 + random_.Below(4)}), ids}, {{"axis", int64_t{0}}});
        return Make(OpKind::kConcat, {row, Input(4 + random_.Below(5))}, {{"axis", int64_t{1}}});
      }
      case 2:
        return random_.OneIn(4) ? Make(OpKind::kConcat, {first_, other_}, {{"axis", int64_t{1}}}) : Input(50);
      case 3:
        return Product(other_, 48, false);
      default:
        return other_;
    }
  }

  // Adds a layer to each chain, with the same or nearly the same ops after it.
  void AddLayers() {
    const int64_t columns = 48 + random_.Below(4), bias = random_.Below(4), activation = random_.Below(6);
    for (Value*& top : tops_) {
      top = Product(top, columns, random_.OneIn(2));
      if (bias == 1) top = Make(OpKind::kAdd, {top, Constant({columns})});
      if (bias == 2) top = Make(OpKind::kSub, {Constant({random_.OneIn(2) ? columns : 1}), top});
      if (bias == 3) top = Make(OpKind::kMul, {top, Builder(*graph_).Scalar(dtype_, 0.5)});
      if (random_.OneIn(8)) Return(random_.OneIn(2) ? top : Sum(top));
      top = Activated(top, random_.OneIn(12) ? random_.Below(6) : activation);
      if (random_.OneIn(8)) Return(random_.OneIn(2) ? top : Sum(top));
    }
    if (random_.OneIn(10)) tops_[0] = Make(OpKind::kAdd, {tops_[0], tops_[1]});
  }

  Value* Activated(Value* x, int64_t activation) {
    if (activation == 0) return Make(OpKind::kRelu, {x});
    if (activation == 1) return Make(OpKind::kMul, {x, Make(OpKind::kSigmoid, {x})});
    if (activation == 2) return Make(OpKind::kMax, {x, Builder(*graph_).Scalar(dtype_, -0.25)});
    if (activation == 3) return Make(OpKind::kTanh, {x});
    if (activation == 4) return Make(OpKind::kGelu, {x}, {{"approximate", std::string(random_.OneIn(8) ? "none" : "tanh")}});
    return x;
  }

  Random random_;
  const Dtype dtype_;
  std::unique_ptr<Graph> graph_;
  bool shared_ = false;
  Value *first_ = nullptr, *other_ = nullptr;
  ValueList tops_;
};

TEST(StackProperty, StackedChainsComputeTheSame) {
  ExpectSameMeaning([](uint64_t seed) { return TowersGenerator(seed).Run(); }, "stack-products", 4);
}

void CompareOnGpu(uint64_t seed, Dtype dtype, const std::string& precision, ArrayRef<int64_t> batches,
                  double relative) {
  const auto graph = TowersGenerator(seed, dtype).Run();
  const NowTrying trying(seed, *graph);
  ExpectRightAnswers(*graph, GpuOrItsText(), precision, seed, batches, relative);
}

// Tolerances as in tests/property/codegen_property_test.cc.
TEST(StackProperty, GpuAnswersMatch) {
  for (const uint64_t seed : SeedsToRun(12)) {
    CompareOnGpu(seed, Dtype::kF32, "highest", {0, 1, 7, 33}, 1e-5);
    CompareOnGpu(seed, Dtype::kF16, "highest", {0, 1, 7, 33}, 1e-3);
  }
}

// So many rows that the library computes the matrices, one by one.
TEST(StackProperty, GpuAnswersOfManyRowsMatch) {
  for (const uint64_t seed : SeedsToRun(6)) CompareOnGpu(seed, Dtype::kBF16, "highest", {7000}, 8e-3);
}

// Stacked chains never take more launches than separate ones.
TEST(StackProperty, NeverLaunchesMore) {
  const auto make = [](uint64_t seed) { return TowersGenerator(seed, seed % 2 == 0 ? Dtype::kF32 : Dtype::kF16).Run(); };
  ExpectNoMoreLaunches(make, "stack-products", 4);
}

}  // namespace
}  // namespace fusec
