#include "compiler/import/part_lengths.h"

#include <algorithm>

namespace fusec {
namespace {

// Collects the inputs from which `value` is computed by views, casts, sums and differences; false
// if it is computed in another way. Sets `differs` if there are differences.
bool CollectInputs(const Value* value, ValueSet& inputs, bool& differs) {
  const Node* node = value->producer;
  if (node == nullptr) return inputs.insert(value), true;
  switch (node->kind) {
    case OpKind::kIdentity:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kCast:
    case OpKind::kGather:  // usually at constant indices
    case OpKind::kReduceSum:
      return CollectInputs(node->operand(0), inputs, differs);
    case OpKind::kConcat:
      break;
    case OpKind::kSub:
      differs = true;
      break;
    default:
      return false;
  }
  return std::all_of(node->operands.begin(), node->operands.end(),
                     [&](const Value* operand) { return CollectInputs(operand, inputs, differs); });
}

}  // namespace

void NoteTotal(const Graph& graph, const Value* lengths, const Expr& total, SizeTotals& totals) {
  ValueSet inputs;
  bool differs = false;
  if (!CollectInputs(lengths, inputs, differs) || inputs.size() != 1) return;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (inputs.count(graph.inputs[i].get()) == 0) continue;
    (differs ? totals.of_offsets : totals.of_lengths)[graph.InputName(i)] = total;
  }
}

}  // namespace fusec
