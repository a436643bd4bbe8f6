#include "passes/request_rows.h"

#include <algorithm>

namespace fusec {

std::optional<std::string> BatchOfItems(const Graph& graph, const PerRequest& per_request) {
  if (per_request.inputs.empty()) return std::nullopt;
  if (const Value* map = FindRequestMap(graph)) return map->type.shape[0].AsSymbol();
  ValueSet of_request;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (IsPerRequest(graph.InputName(i), per_request)) of_request.insert(graph.inputs[i].get());
  }
  for (const auto& node : graph.nodes) {
    const bool reads = std::any_of(node->operands.begin(), node->operands.end(),
                                   [&](const Value* operand) { return of_request.count(operand); });
    if (!reads) continue;
    const Shape& rows = node->result()->type.shape;
    if (node->kind == OpKind::kExpand && !rows.empty() && rows[0].AsSymbol())
      return rows[0].AsSymbol();
    for (const auto& result : node->results) of_request.insert(result.get());
  }
  return std::nullopt;
}

const Node* ReplicationOf(const Value* value, const Value* map) {
  const Node* node = value->producer;
  if (!node || value->type.rank() == 0) return nullptr;
  if (map) {
    const bool is_gather = node->kind == OpKind::kGather && node->operand(1) == map;
    return is_gather && node->Int("axis") == 0 ? node : nullptr;
  }
  if (node->kind != OpKind::kExpand) return nullptr;
  const Shape &row = node->operand(0)->type.shape, &rows = value->type.shape;
  const bool is_replicated = row.size() == rows.size() && row[0].IsConstant(1) &&
                             rows[0].AsSymbol() &&
                             std::equal(row.begin() + 1, row.end(), rows.begin() + 1);
  return is_replicated ? node : nullptr;
}

}  // namespace fusec
