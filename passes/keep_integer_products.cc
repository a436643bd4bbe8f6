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

// Weights [k, n] that fit 8 bits without their zero point.
struct Weights {
  Value* integers;
  Value* zero_point;   // null: 0
  TensorData fitting;  // the integers minus the zero point, i8

  bool are_fitting() const { return !zero_point && integers->type.dtype == Dtype::kI8; }
};

// The integers minus a zero point that is broadcast to them, if they fit 8 bits.
std::optional<TensorData> Fitting(const TensorData& integers, const TensorData* zeros) {
  const int64_t terms = integers.dims()[0], columns = integers.dims()[1];
  const bool has_rows = zeros && zeros->dims().size() == 2 && zeros->dims()[0] > 1;
  const bool has_columns = zeros && !zeros->dims().empty() && zeros->dims().back() > 1;
  TensorData fitting(Dtype::kI8, {terms, columns});
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t n = 0; n < columns; ++n) {
      const int64_t at = (has_rows ? k * (has_columns ? columns : 1) : 0) + (has_columns ? n : 0);
      const int64_t weight = integers.GetInt(k * columns + n) - (zeros ? zeros->GetInt(at) : 0);
      if (weight < -128 || weight > 127) return std::nullopt;
      fitting.SetInt(k * columns + n, weight);
    }
  }
  return fitting;
}

// The weights of a product that the library can compute.
std::optional<Weights> WeightsOf(const Node& node) {
  if (node.kind != OpKind::kMatMulInteger) return std::nullopt;
  Value *integers = node.operands[1], *zero_point = node.operand(3) ? node.operands[3] : nullptr;
  const TensorData* data = Payload(integers);
  const TensorData* zeros = zero_point ? Payload(zero_point) : nullptr;
  if (data == nullptr || data->dims().size() != 2 || (zero_point != nullptr && zeros == nullptr) ||
      !PaysInIntegers(data->dims()[0], data->dims()[1]))
    return std::nullopt;
  if (zeros != nullptr && IsZero(*zeros)) zero_point = nullptr;
  auto fitting = Fitting(*data, zero_point ? zeros : nullptr);
  if (!fitting) return std::nullopt;
  return Weights{integers, zero_point, *std::move(fitting)};
}

// The weights minus their zero point, i8[k, n]. If these are other numbers than the weights', they
// are frozen, because new weights might not fit.
Value* ShortWeights(Builder& builder, const Weights& weights) {
  if (weights.are_fitting()) return weights.integers;
  std::vector<const Value*> sources = {weights.integers};
  if (weights.zero_point != nullptr) sources.push_back(weights.zero_point);
  return AddConstant(builder, Frozen(weights.fitting, sources), weights.integers->name + "_short");
}

// The sum of each column, i32[n].
Value* SumsOfColumns(Builder& builder, const Weights& weights) {
  const int64_t columns = weights.fitting.dims()[1];
  TensorData data(Dtype::kI32, {columns});
  for (int64_t i = 0; i < weights.fitting.element_count(); ++i)
    data.SetInt(i % columns, data.GetInt(i % columns) + weights.fitting.GetInt(i));
  Recipe recipe;
  Value* centred = recipe.Cast(recipe.Use(weights.integers), Dtype::kI32);
  if (weights.zero_point != nullptr)
    centred = recipe.Sub(centred, recipe.Cast(recipe.Use(weights.zero_point), Dtype::kI32));
  Value* sums = recipe.Reduce(OpKind::kReduceSum, centred, 0, /*keepdims=*/false);
  return AddConstant(builder, recipe.Finish(sums, std::move(data)),
                     weights.integers->name + "_sums");
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
    Value* left = node.operands[0];
    Value* product = builder.Make(
        OpKind::kMatMul, {UnsignedLeft(builder, left), ShortWeights(builder, *weights)},
        {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}, {"to", Dtype::kI32}},
        node.result()->name + "_product");
    Value* zero_point = UnsignedZeroPoint(builder, left, node.operand(2));
    if (zero_point != nullptr) {
      Value* sums = SumsOfColumns(builder, *weights);
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
