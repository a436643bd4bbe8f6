#include "compiler/plan/attention_mask.h"

#include <algorithm>

namespace fusec {

Scalar EvaluateScore(RegionLowering& lowering, const AttentionParts& parts, ArrayRef<Expr> index,
                     bool& reads_product) {
  lowering.OnReducer([&](const Node&, ArrayRef<Expr>) {
    reads_product = true;
    return Scalar{"product", parts.values->result()->type.dtype};
  });
  return lowering.Evaluate(parts.score, index);
}

int64_t CountMasks(const AttentionParts& parts) {
  return std::count_if(parts.nodes.begin(), parts.nodes.end(), [&](const Node* node) {
    if (node == parts.guard) return false;
    if (node->kind == OpKind::kWhere || parts.has_softmax)
      return node->kind == OpKind::kWhere || node->kind == OpKind::kAdd;
    return node->kind == OpKind::kMul &&
           std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
             return !parts.nodes.count(operand->producer) &&
                    !operand->type.ElementCount().IsConstant(1);
           });
  });
}

std::optional<Expr> DiagonalOf(const Expr& position, const Expr& limit, const Expr& key) {
  const Expr constant = position - limit - key + Variable("query_row");
  return constant.AsConstant() ? std::optional(constant) : std::nullopt;
}

std::optional<Expr> FindDiagonal(const Node& region, const AttentionParts& parts,
                                 KernelBuilder& builder, const Expr& heads) {
  std::vector<IndexSite> sites;
  KernelBuilder trial(builder, sites);
  const Shape& shape = parts.score->type.shape;  // leading dims may differ from the values'
  trial.DefineVariable("query_row", 0, shape[shape.size() - 2] - 1);
  trial.DefineVariable("key_row", 0, shape.back() - 1);
  trial.DefineVariable("head", 0, heads - 1);
  const Shape lead(shape.begin(), shape.end() - 2);
  Exprs index = Delinearize(Variable("head"), lead, trial.ranges());
  index.push_back(Variable("query_row"));
  index.push_back(Variable("key_row"));
  RegionLowering lowering(region, trial);
  Exprs diagonals;
  lowering.OnSelect([&](const Expr& position, const Expr& limit) -> std::optional<bool> {
    const auto diagonal = DiagonalOf(position, limit, Variable("key_row"));
    if (diagonal) diagonals.push_back(*diagonal);
    return diagonal ? std::optional(true) : std::nullopt;
  });
  bool reads_product = false;
  EvaluateScore(lowering, parts, index, reads_product);
  const bool all_same = std::all_of(diagonals.begin(), diagonals.end(),
                                    [&](const Expr& e) { return e == diagonals[0]; });
  return !diagonals.empty() && all_same ? std::optional(diagonals[0]) : std::nullopt;
}

}  // namespace fusec
