#include "compiler/plan/pooled_lanes.h"

#include <algorithm>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

constexpr int64_t kVectorBits = 128, kMostLanes = 16;

// The fewest bits per element in which rows that are pooled into `value` are stored; 0 if there are
// none. `pooled`: whether a reduction reads `value`.
int64_t BitsOfPooledRows(const Value* value, bool pooled, int64_t elements_per_byte,
                         ValueSet& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr || !seen.insert(value).second) return 0;
  if (node->kind == OpKind::kGather && node->Int("axis") == 0 && pooled) {
    const TensorType& table = node->operand(0)->type;
    // Scales and the like, of a row each, are no rows of elements.
    if (table.rank() < 2 || table.shape.back().AsConstant().value_or(0) < 8) return 0;
    return 8 * DtypeBytes(table.dtype) / elements_per_byte;
  }
  pooled |= GetOpDef(node->kind).op_class == OpClass::kReduction || Folds(*node);
  if (node->kind == OpKind::kUnpackInt4) elements_per_byte = 2;
  int64_t fewest = 0;
  for (const Value* operand : node->operands) {
    const int64_t bits = BitsOfPooledRows(operand, pooled, elements_per_byte, seen);
    if (bits > 0 && (fewest == 0 || bits < fewest)) fewest = bits;
  }
  return fewest;
}

}  // namespace

int64_t LanesOfPooledRows(const Value* value) {
  ValueSet seen;
  const int64_t bits = BitsOfPooledRows(value, /*pooled=*/false, 1, seen);
  return bits == 0 ? 0 : std::min(kVectorBits / bits, kMostLanes);
}

}  // namespace fusec
