#include "passes/keep_integer_products.h"

#include "passes/graph_edit.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

bool IsZero(const TensorData& data) {
  for (int64_t i = 0; i < data.element_count(); ++i) {
    if (data.GetInt(i) != 0) return false;
  }
  return true;
}

// A constant [k, n], or one number, that is broadcast to it.
struct Weights {
  const Value* integers;
  const Value* zero_point;  // null: 0

  int64_t terms() const { return Payload(integers)->dims()[0]; }
  int64_t columns() const { return Payload(integers)->dims()[1]; }
  int64_t At(int64_t k, int64_t n) const {
    const int64_t integer = Payload(integers)->GetInt(k * columns() + n);
    if (zero_point == nullptr) return integer;
    const TensorData& zeros = *Payload(zero_point);
    const std::vector<int64_t>& dims = zeros.dims();
    const bool has_rows = dims.size() == 2 && dims[0] > 1;
    const bool has_columns = !dims.empty() && dims.back() > 1;
    const int64_t width = has_columns ? columns() : 1;
    return integer - zeros.GetInt((has_rows ? k * width : 0) + (has_columns ? n : 0));
  }
  // The integers minus the zero point, in i32.
  Value* Centred(Recipe& recipe) const {
    Value* centred = recipe.Cast(recipe.Use(integers), Dtype::kI32);
    if (zero_point == nullptr) return centred;
    return recipe.Sub(centred, recipe.Cast(recipe.Use(zero_point), Dtype::kI32));
  }
};

// The weights of a product that the library can compute.
std::optional<Weights> WeightsOf(const Node& node) {
  if (node.kind != OpKind::kMatMulInteger) return std::nullopt;
  const Value *integers = node.operand(1), *zero_point = node.operand(3);
  const TensorData* data = Payload(integers);
  const TensorData* zeros = zero_point ? Payload(zero_point) : nullptr;
  if (data == nullptr || data->dims().size() != 2 || (zero_point != nullptr && zeros == nullptr) ||
      !PaysInIntegers(data->dims()[0], data->dims()[1]))
    return std::nullopt;
  const Weights weights{integers, zeros == nullptr || IsZero(*zeros) ? nullptr : zero_point};
  for (int64_t k = 0; k < weights.terms(); ++k) {
    for (int64_t n = 0; n < weights.columns(); ++n) {
      const int64_t weight = weights.At(k, n);
      if (weight < -128 || weight > 127) return std::nullopt;
    }
  }
  return weights;
}

// The weights minus their zero point, i8[k, n]. If these are other numbers than the weights', they
// are frozen, because new weights might not fit.
Value* ShortWeights(Builder& builder, const Weights& weights, Value* integers) {
  if (weights.zero_point == nullptr && integers->type.dtype == Dtype::kI8) return integers;
  TensorData data(Dtype::kI8, Payload(integers)->dims());
  for (int64_t k = 0; k < weights.terms(); ++k) {
    for (int64_t n = 0; n < weights.columns(); ++n)
      data.SetInt(k * weights.columns() + n, weights.At(k, n));
  }
  std::vector<const Value*> sources = {integers};
  if (weights.zero_point != nullptr) sources.push_back(weights.zero_point);
  return AddConstant(builder, Frozen(std::move(data), sources), integers->name + "_short");
}

// The sum of each column, i32[n].
Value* SumsOfColumns(Builder& builder, const Weights& weights, const std::string& name) {
  TensorData data(Dtype::kI32, {weights.columns()});
  for (int64_t n = 0; n < weights.columns(); ++n) {
    int64_t sum = 0;
    for (int64_t k = 0; k < weights.terms(); ++k) sum += weights.At(k, n);
    data.SetInt(n, sum);
  }
  Recipe recipe;
  Value* sums = recipe.Reduce(OpKind::kReduceSum, weights.Centred(recipe), 0, /*keepdims=*/false);
  return AddConstant(builder, recipe.Finish(sums, std::move(data)), name + "_sums");
}

// The left factor as u8, with which the library's sums are exact: numbers of i8 plus 128.
Value* UnsignedLeft(Builder& builder, Value* left) {
  if (left->type.dtype == Dtype::kU8) return left;
  const auto cast = [&](Value* value, Dtype to) {
    return builder.Make(OpKind::kCast, {value}, {{"to", to}}, left->name + "_shifted");
  };
  Value* shift = builder.Scalar(Dtype::kI32, 128);
  return cast(builder.Make(OpKind::kAdd, {cast(left, Dtype::kI32), shift}, {}, left->name + "_sum"),
              Dtype::kU8);
}

// The zero point of that factor in i32; null for 0.
Value* UnsignedZeroPoint(Builder& builder, const Value* left, Value* zero_point) {
  const bool is_signed = left->type.dtype == Dtype::kI8;
  Value* shift = is_signed ? builder.Scalar(Dtype::kI32, 128) : nullptr;
  const TensorData* zeros = zero_point ? Payload(zero_point) : nullptr;
  if (zero_point == nullptr || (zeros != nullptr && IsZero(*zeros))) return shift;
  Value* wide =
      builder.Make(OpKind::kCast, {zero_point}, {{"to", Dtype::kI32}}, zero_point->name + "_i32");
  if (shift == nullptr) return wide;
  return builder.Make(OpKind::kAdd, {wide, shift}, {}, zero_point->name + "_shifted");
}

}  // namespace

bool PaysInIntegers(int64_t terms, int64_t columns) {
  constexpr int64_t kFewestTerms = 16, kFewestColumns = 16, kFewestWeights = 512;
  return terms >= kFewestTerms && columns >= kFewestColumns && terms * columns >= kFewestWeights;
}

Result<bool> KeepIntegerProducts(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, [](const Node& node, Builder& builder) -> Value* {
    const std::optional<Weights> weights = WeightsOf(node);
    if (!weights) return nullptr;
    Value *left = node.operands[0], *integers = node.operands[1];
    Value* product = builder.Make(
        OpKind::kMatMul, {UnsignedLeft(builder, left), ShortWeights(builder, *weights, integers)},
        {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}, {"to", Dtype::kI32}},
        node.result()->name + "_product");
    Value* zero_point = UnsignedZeroPoint(builder, left, node.operand(2));
    if (zero_point != nullptr) {
      Value* sums = SumsOfColumns(builder, *weights, integers->name);
      Value* shift =
          builder.Make(OpKind::kMul, {zero_point, sums}, {}, node.result()->name + "_shift");
      product = builder.Make(OpKind::kSub, {product, shift}, {}, node.result()->name);
    }
    const Dtype to = node.result()->type.dtype;
    if (to == Dtype::kI32) return product;
    return builder.Make(OpKind::kCast, {product}, {{"to", to}}, node.result()->name);
  });
}

}  // namespace fusec
