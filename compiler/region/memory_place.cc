#include "compiler/region/memory_place.h"

#include "compiler/ir/element_sources.h"

namespace fusec {

const Value* OperandOf(const Node& region, const Value* value) {
  while (value->producer && value->producer->kind == OpKind::kReshape)
    value = value->producer->operand(0);
  for (size_t i = 0; i < region.operands.size(); ++i) {
    if (region.body->inputs[i].get() == value) return region.operands[i];
  }
  return nullptr;
}

std::optional<MemoryPlace> FindInMemory(const Node& region, const Value* value,
                                        ArrayRef<Expr> index, const Ranges& ranges) {
  Exprs at(index);
  while (const Node* view = value->producer) {
    auto sources = ElementSources(*view, value->result_index, at, ranges, NoIndexIsKnown);
    if (!sources || sources->size() != 1 || (*sources)[0].operand < 0) return std::nullopt;
    value = view->operands[(*sources)[0].operand];
    at = std::move((*sources)[0].index);
  }
  const Graph& body = *region.body;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i].get() == value)
      return MemoryPlace{region.operands[i], Linearize(at, value->type.shape, ranges)};
  }
  return std::nullopt;
}

}  // namespace fusec
