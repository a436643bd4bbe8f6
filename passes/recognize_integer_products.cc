#include "passes/recognize_integer_products.h"

#include "passes/graph_edit.h"
#include "passes/keep_integer_products.h"

namespace fusec {

namespace {

// (integers - zero point) * scale in f32
struct Dequantized {
  Value* integers = nullptr;
  Value* zero_point = nullptr;  // null: 0
  Value* scale = nullptr;
};

Value* OperandOfCast(const Value* value) {
  const Node* cast = ProducerOf(value, OpKind::kCast);
  return cast ? cast->operands[0] : nullptr;
}

bool AreShort(const Value* value) {
  return value && IsInteger(value->type.dtype) && DtypeBytes(value->type.dtype) == 1;
}

std::optional<Dequantized> DequantizedBy(const Value* value) {
  const Node* scaled = ProducerOf(value, OpKind::kMul);
  if (!scaled || value->type.dtype != Dtype::kF32) return std::nullopt;
  Dequantized found;
  found.scale = scaled->operands[1];
  const Value* integers = scaled->operand(0);
  if (const Node* centred = ProducerOf(integers, OpKind::kSub)) {
    integers = centred->operand(0);
    found.zero_point = OperandOfCast(centred->operand(1));
    if (!found.zero_point) return std::nullopt;
  }
  found.integers = OperandOfCast(integers);
  const bool fits =
      AreShort(found.integers) && found.integers->type.shape == value->type.shape &&
      (!found.zero_point || found.zero_point->type.dtype == found.integers->type.dtype);
  return fits ? std::optional(found) : std::nullopt;
}

bool IsOneNumber(const Value* value) { return value->type.ElementCount().IsConstant(1); }

// Whether `value` is one number or has one for each column of [k, n], or for each row if they are
// `transposed`.
bool IsPerColumn(const Value* value, const Shape& weights, bool transposed) {
  if (IsOneNumber(value)) return true;
  const Expr& columns = weights[transposed ? 0 : 1];
  const Shape per_column = transposed ? Shape{columns, 1} : Shape{1, columns};
  return value->type.shape == per_column || (!transposed && value->type.shape == Shape{columns});
}

// Whether the product of the node is one of rows by a matrix, perhaps transposed, and of a size
// that is worth it.
bool MultipliesRows(const Node& node) {
  if (node.kind != OpKind::kMatMul && node.kind != OpKind::kGemm) return false;
  if (node.kind == OpKind::kGemm && (node.Float("alpha") != 1.0 || node.Float("beta") != 1.0))
    return false;
  constexpr int64_t kMostTerms = 32768;  // whose sum of products fits i32
  const auto weights = StaticShape(node.operand(1)->type.shape);
  if (node.Int("transpose_a") != 0 || !weights || weights->size() != 2) return false;
  const size_t of_columns = node.Int("transpose_b") != 0 ? 0 : 1;
  const int64_t terms = (*weights)[1 - of_columns];
  return terms <= kMostTerms && PaysInIntegers(terms, (*weights)[of_columns]);
}

Value* Product(Builder& builder, const Node& node) {
  const auto left = DequantizedBy(node.operand(0)), right = DequantizedBy(node.operand(1));
  const bool transposed = node.Int("transpose_b") != 0;
  if (!left || !right || IsConstant(left->integers) || !IsConstant(right->integers) ||
      !IsOneNumber(left->scale) || (left->zero_point && !IsOneNumber(left->zero_point)))
    return nullptr;
  const Shape& weights = right->integers->type.shape;
  for (const Value* parameter : {right->scale, right->zero_point}) {
    if (parameter && !IsPerColumn(parameter, weights, transposed)) return nullptr;
  }
  const std::string& name = node.result()->name;
  // As a vector along the columns, or one number.
  const auto along_columns = [&](Value* value) {
    const Shape shape = IsOneNumber(value) ? Shape{} : Shape{weights[transposed ? 0 : 1]};
    return ReshapeTo(builder, value, shape, value->name + "_of_columns");
  };
  const auto number = [&](Value* value) {
    return ReshapeTo(builder, value, {}, value->name + "_number");
  };
  Value* integers = right->integers;
  if (transposed) {
    integers = builder.Make(OpKind::kTranspose, {integers}, {{"perm", std::vector<int64_t>{1, 0}}},
                            integers->name + "_turned");
  }
  ValueList operands = {left->integers, integers,
                        left->zero_point ? number(left->zero_point) : nullptr,
                        right->zero_point ? along_columns(right->zero_point) : nullptr};
  while (operands.back() == nullptr) operands.pop_back();
  Value* sums =
      builder.Make(OpKind::kMatMulInteger, operands, {{"to", Dtype::kF32}}, name + "_sums");
  Value* scale = builder.Make(OpKind::kMul, {number(left->scale), along_columns(right->scale)}, {},
                              name + "_scale");
  return builder.Make(OpKind::kMul, {sums, scale}, {}, name + "_product");
}

}  // namespace

Result<bool> RecognizeIntegerProducts(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, [](const Node& node, Builder& builder) -> Value* {
    if (!MultipliesRows(node)) return nullptr;
    Value* product = Product(builder, node);
    const bool adds = node.kind == OpKind::kGemm && node.operands.size() > 2 && node.operand(2);
    if (!product || !adds) return product;
    return builder.Make(OpKind::kAdd, {product, node.operands[2]}, {}, node.result()->name);
  });
}

}  // namespace fusec
