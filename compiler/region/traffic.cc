#include "compiler/region/traffic.h"

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

// Whether one element of operand `i` is read for each element of the result. The lengths of the
// bags of a segment_reduce are data, so it counts as reading the whole operand.
bool IsTable(const Node& node, size_t i) {
  if (GetOpDef(node.kind).op_class != OpClass::kGather) return false;
  if (Folds(node)) return false;
  return i == 0 || (node.kind == OpKind::kLookup && i == 2);
}

Expr BytesLookedUp(const Node& node, size_t i) {
  return node.result()->type.ElementCount() * DtypeBytes(node.operands[i]->type.dtype);
}

}  // namespace

Expr BytesRead(const Node& node, size_t i, const Ranges& ranges) {
  const Expr all = node.operands[i]->type.Bytes();
  return IsTable(node, i) ? Min(BytesLookedUp(node, i), all, ranges) : all;
}

Expr RegionBytesWritten(const Node& region) {
  Expr written;
  const Ranges ranges = region.body->SymbolRanges();
  for (const Value* result : region.body->outputs) {
    const Expr all = result->type.Bytes();
    const bool in_place = result->producer && IsInPlace(*result->producer);
    // More updates than there are rows end in an index error.
    written = written +
              (in_place ? Min(result->producer->operand(2)->type.Bytes(), all, ranges) : all);
  }
  return written;
}

Expr RegionBytesRead(const Node& region, size_t i, const Ranges& ranges) {
  const Value* input = region.body->inputs[i].get();
  const Expr all = region.operands[i]->type.Bytes();
  Expr looked_up;
  for (const auto& node : region.body->nodes) {
    for (size_t j = 0; j < node->operands.size(); ++j) {
      if (node->operands[j] != input) continue;
      if (j == 0 && IsInPlace(*node)) return 0;  // nothing else reads it
      if (!IsTable(*node, j)) return all;
      looked_up = looked_up + BytesLookedUp(*node, j);
    }
  }
  return looked_up.terms().empty() ? all : Min(looked_up, all, ranges);
}

}  // namespace fusec
