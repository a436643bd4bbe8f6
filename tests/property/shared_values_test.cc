// Values that several equal parts, or several operands of one op, share: a pass that fuses or rewrites one use must not affect the others.
// Checks answers on the CPU, and those of the kernels planned for a GPU.
#include <gtest/gtest.h>

#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

class SharedValues : public testing::Test {
 protected:
  SharedValues() : random_(1), graph_(std::make_unique<Graph>()) {
    graph_->name = "shared";
    graph_->symbols = {{"batch", 0, 9000}};
  }

  Value* Make(OpKind kind, ValueList operands, Attributes attributes = {}) {
    return Builder(*graph_).Make(kind, std::move(operands), std::move(attributes));
  }
  Value* Input(const std::string& name, ArrayRef<int64_t> behind_batch, Dtype dtype = Dtype::kF32) {
    Shape shape = {Expr::Symbol("batch")};
    shape.insert(shape.end(), behind_batch.begin(), behind_batch.end());
    return graph_->AddInput(name, {dtype, shape});
  }
  Value* Weights(std::vector<int64_t> dims) {
    TensorData data(Dtype::kF32, std::move(dims));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random_.Eighths() / 4);
    return Builder(*graph_).Constant(std::move(data));
  }
  Value* Product(Value* a, Value* b) { return Make(OpKind::kMatMul, {a, b}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}}); }
  Value* Columns(Value* x, int64_t first, int64_t count) {
    const Shape shape = {Expr::Symbol("batch"), count};
    return Make(OpKind::kSlice, {x}, {{"starts", Exprs{0, first}}, {"steps", std::vector<int64_t>{1, 1}}, {"shape", shape}});
  }
  Value* Reshaped(Value* x, ArrayRef<int64_t> behind_batch) {
    Shape shape = {Expr::Symbol("batch")};
    shape.insert(shape.end(), behind_batch.begin(), behind_batch.end());
    return Make(OpKind::kReshape, {x}, {{"shape", shape}});
  }
  Value* Modulo(Value* x, int64_t divisor) {
    return Make(OpKind::kMod, {x, Builder(*graph_).Scalar(x->type.dtype, static_cast<double>(divisor))}, {{"fmod", int64_t{0}}});
  }
  Value* Row(Value* table, Value* ids) { return Make(OpKind::kGather, {table, ids}, {{"axis", int64_t{0}}}); }
  Value* Concat(ValueList parts, int64_t axis) { return Make(OpKind::kConcat, std::move(parts), {{"axis", axis}}); }

  void ExpectRight(Value* result) {
    graph_->outputs.push_back(result);
    graph_->output_names.push_back("y");
    for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
      SCOPED_TRACE(where == RunOn::kCpu ? "on the CPU" : "kernels for a GPU");
      ExpectRightAnswers(*graph_, where, "highest", /*seed=*/1, {0, 1, 3, 17, 70}, 1e-5);
    }
  }

  Random random_;
  std::unique_ptr<Graph> graph_;
};

// x0 * x0 is not like x0 * x1, although its ops are the same.
TEST_F(SharedValues, ProductsOfOnePartWithEachOfThem) {
  Value* x = Input("x", {20});
  ValueList parts, products;
  for (int64_t i = 0; i < 5; ++i) parts.push_back(Columns(x, 4 * i, 4));
  for (Value* part : parts) products.push_back(Make(OpKind::kMul, {parts[0], part}));
  ExpectRight(Concat(products, 1));
}

TEST_F(SharedValues, ProductsOfOneEmbeddingWithEachOfThem) {
  Value* ids = Input("ids", {4}, Dtype::kI64);
  ValueList rows, products;
  for (int64_t i = 0; i < 4; ++i) rows.push_back(Reshaped(Row(Weights({10, 4}), Columns(ids, i, 1)), {4}));
  for (Value* row : rows) products.push_back(Make(OpKind::kMul, {rows[0], row}));
  ExpectRight(Concat(products, 1));
}

TEST_F(SharedValues, OneTableForBothLookUpsOfTheFirstPartOnly) {
  Value *i = Input("i", {4}, Dtype::kI64), *j = Input("j", {4}, Dtype::kI64);
  Value* first = Weights({10, 4});
  ValueList parts;
  for (int64_t k = 0; k < 4; ++k) {
    Value* left = Row(k == 0 ? first : Weights({10, 4}), Columns(i, k, 1));
    Value* right = Row(k == 0 ? first : Weights({10, 4}), Columns(j, k, 1));
    parts.push_back(Make(OpKind::kAdd, {left, right}));
  }
  ExpectRight(Concat(parts, 1));
}

TEST_F(SharedValues, OneColumnOfALayerAndWhatStandsBehindIt) {
  Value* layer = Make(OpKind::kAdd, {Product(Input("x", {16}), Weights({16, 16})), Weights({16})});
  ExpectRight(Make(OpKind::kRelu, {Columns(layer, 0, 1)}));
}

TEST_F(SharedValues, ALayerOnAReshapedProductOfInputs) {
  Value* products = Product(Input("a", {4, 4}), Input("b", {4, 64}));
  ExpectRight(Make(OpKind::kAdd, {Product(Reshaped(products, {256}), Weights({256, 8})), Weights({8})}));
}

// Keys scaled by a constant, which are also the values.
TEST_F(SharedValues, ScaledKeysOfAttentionAreItsValues) {
  Value *queries = Input("q", {2, 64, 48}), *hidden = Input("k", {2, 64, 48});
  Value* keys = Make(OpKind::kMul, {hidden, Builder(*graph_).Scalar(Dtype::kF32, 0.25)});
  Value* scores = Make(OpKind::kMatMul, {queries, keys}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  ExpectRight(Product(Make(OpKind::kSoftmax, {scores}, {{"axis", int64_t{3}}}), keys));
}

TEST_F(SharedValues, ScaledKeysOfAttentionAreItsQueries) {
  Value *hidden = Input("x", {2, 64, 48}), *values = Input("v", {2, 64, 48});
  Value* scaled = Make(OpKind::kMul, {hidden, Builder(*graph_).Scalar(Dtype::kF32, 0.25)});
  Value* scores = Make(OpKind::kMatMul, {scaled, scaled}, {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  ExpectRight(Product(Make(OpKind::kSoftmax, {scores}, {{"axis", int64_t{3}}}), values));
}

// x W + x W + x A B: an adapter merged into the W of both would count twice.
TEST_F(SharedValues, AnAdapterBesideALayerAddedToItself) {
  Value* x = Input("x", {8});
  Value* base = Product(x, Weights({8, 6}));
  Value* adapter = Product(Product(x, Weights({8, 2})), Weights({2, 6}));
  ExpectRight(Make(OpKind::kAdd, {Make(OpKind::kAdd, {base, base}), adapter}));
}

// 200 of u8 is -56 of i8, which counts from the table's end.
TEST_F(SharedValues, IdsThatTurnNegativeInANarrowerType) {
  Value* byte = Make(OpKind::kCast, {Modulo(Input("ids", {1}, Dtype::kI64), 256)}, {{"to", Dtype::kU8}});
  Value* narrow = Make(OpKind::kCast, {Modulo(byte, 200)}, {{"to", Dtype::kI8}});
  ExpectRight(Row(Weights({256, 3}), Make(OpKind::kCast, {narrow}, {{"to", Dtype::kI64}})));
}

}  // namespace
}  // namespace fusec
