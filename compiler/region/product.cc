#include "compiler/region/product.h"

#include <algorithm>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

// Whether each matrix of the product's batch has its own weights, or all share the same.
bool RepeatsAllWeightsOrNone(const Node& matmul) {
  const Shape &weights = matmul.operand(1)->type.shape, &result = matmul.result()->type.shape;
  return weights.size() == 2 || (weights.size() == result.size() &&
                                 std::equal(weights.begin(), weights.end() - 2, result.begin()));
}

}  // namespace

Dtype FactorDtype(const Node& matmul) { return matmul.operand(1)->type.dtype; }

bool IsSplit(Dtype dtype, const std::string& precision) {
  return dtype == Dtype::kF32 && precision == "highest";
}

Arithmetic ArithmeticOf(Dtype dtype, const std::string& precision) {
  if (dtype != Dtype::kF32) return Arithmetic::kHalf;
  return IsSplit(dtype, precision) ? Arithmetic::kSplit : Arithmetic::kTf32;
}

std::optional<Float8Rows> FindFloat8Rows(const Node& matmul) {
  const auto producer = [](const Value* value, OpKind kind) -> const Node* {
    return value->producer && value->producer->kind == kind ? value->producer : nullptr;
  };
  if (!FindProductShape(matmul)) return std::nullopt;
  const Value* left = matmul.operand(0);
  if (const Node* cast = producer(left, OpKind::kCast)) left = cast->operand(0);
  const Node* quotient = producer(left, OpKind::kDiv);
  if (!quotient) return std::nullopt;
  const Node* decoded = producer(quotient->operand(0), OpKind::kFromE4M3);
  const Shape &factors = quotient->operand(1)->type.shape, &shape = left->type.shape;
  const bool is_of_rows = decoded && decoded->result()->type.shape == shape &&
                          factors.size() == shape.size() && factors.back().IsConstant(1) &&
                          std::equal(factors.begin(), factors.end() - 1, shape.begin());
  if (!is_of_rows) return std::nullopt;
  return Float8Rows{decoded->operand(0), quotient->operand(1)};
}

NodeSet NodesBehind(const Value* value) {
  NodeSet nodes;
  std::vector<const Value*> work = {value};
  while (!work.empty()) {
    const Value* next = work.back();
    work.pop_back();
    if (next == nullptr || next->producer == nullptr || !nodes.insert(next->producer).second)
      continue;
    work.insert(work.end(), next->producer->operands.begin(), next->producer->operands.end());
  }
  return nodes;
}

bool IsMadeOfCodes(const Value* value) {
  const NodeSet nodes = NodesBehind(value);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return node->kind == OpKind::kUnpackInt4; });
}

const Value* DenseOperand(const Node& region) {
  return region.Has(kDense) ? region.operands[static_cast<size_t>(region.Int(kDense))] : nullptr;
}

ValueSet PackedInputs(const Node& region) {
  ValueSet inputs;
  for (const auto& product : region.body->nodes) {
    if (product->kind != OpKind::kMatMul) continue;
    for (const Node* node : NodesBehind(product->operand(1))) {
      for (const Value* operand : node->operands) {
        if (operand != nullptr && operand->producer == nullptr) inputs.insert(operand);
      }
    }
  }
  return inputs;
}

bool IsPaired(const Node& region) {
  const auto& nodes = region.body->nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const std::unique_ptr<Node>& node) {
    if (node->kind != OpKind::kSlice) return false;
    const Node* parts = node->operand(0)->producer;
    if (!parts || parts->kind != OpKind::kReshape) return false;
    const Value* product = parts->operand(0);
    const Shape& shape = parts->result()->type.shape;
    const size_t rank = shape.size();
    return product->producer && product->producer->kind == OpKind::kMatMul &&
           rank == product->type.shape.size() + 2 && shape[rank - 2].IsConstant(2) &&
           shape[rank - 1].IsConstant(kPairedColumns);
  });
}

std::optional<ProductShape> FindProductShape(const Node& node) {
  if (node.kind != OpKind::kMatMul || node.Int("transpose_a") != 0 || node.Int("transpose_b") != 1)
    return std::nullopt;
  const auto shape = StaticShape(node.operand(1)->type.shape);
  const Dtype dtype = node.result()->type.dtype;
  if (!shape || !IsFloat(dtype) || dtype == Dtype::kF64 || !RepeatsAllWeightsOrNone(node))
    return std::nullopt;
  const size_t rank = shape->size();
  ProductShape product{1, (*shape)[rank - 2], (*shape)[rank - 1]};
  for (size_t i = 0; i + 2 < rank; ++i) product.matrices *= (*shape)[i];
  if (product.n <= 0 || product.k <= 0 || product.matrices <= 0 || product.matrices > kMostMatrices)
    return std::nullopt;
  return product;
}

}  // namespace fusec
