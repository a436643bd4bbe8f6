#include "compiler/region/stack_parts.h"

#include <algorithm>

namespace fusec {

std::vector<const Value*> StackedParts(const Value* value) {
  const Node* stack = value->producer;
  if (!stack || stack->kind != OpKind::kConcat || stack->Int("axis") != 0) return {};
  std::vector<const Value*> parts;
  for (const Value* operand : stack->operands) {
    const Node* reshape = operand->producer;
    if (!reshape || reshape->kind != OpKind::kReshape) return {};
    const Value* part = reshape->operand(0);
    Shape stacked = {1};
    stacked.insert(stacked.end(), part->type.shape.begin(), part->type.shape.end());
    if (operand->type.shape != stacked) return {};
    parts.push_back(part);
  }
  const bool joins = std::any_of(parts.begin(), parts.end(), [](const Value* part) {
    return part->producer && part->producer->kind == OpKind::kConcat &&
           part->producer->Int("axis") > 0;
  });
  return joins ? parts : std::vector<const Value*>();
}

}  // namespace fusec
