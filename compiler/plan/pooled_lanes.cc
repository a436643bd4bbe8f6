#include "compiler/plan/pooled_lanes.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/region/reducers.h"

namespace fusec {

namespace {

constexpr int64_t kVectorBits = 128, kMostLanes = 16;

// The fewest bits per element of the stored rows that are pooled into `value`; 0 if there are none.
// `pooled` says whether a reduction reads `value`.
int64_t BitsOfPooledRows(const Value* value, bool pooled, int64_t elements_per_byte,
                         ValueSet& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr || !seen.insert(value).second) return 0;
  if (node->kind == OpKind::kGather && node->Int("axis") == 0 && pooled) {
    const TensorType& table = node->operand(0)->type;
    // Narrow tables, such as the scales of rows, do not count.
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

// Like FoldedElements; `seen` caches results.
int64_t FoldedBehind(const Value* value, const Ranges& ranges,
                     DenseMap<const Value*, int64_t>& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr) return 1;
  if (const auto known = seen.find(value); known != seen.end()) return known->second;
  int64_t most = 1;
  for (const Value* operand : node->operands)
    most = std::max(most, FoldedBehind(operand, ranges, seen));
  int64_t folded = 1;
  if (GetOpDef(node->kind).op_class == OpClass::kReduction)
    folded = ranges.IntervalOf(Product(ReducedDims(*node))).high;
  else if (Folds(*node))
    folded = kLongSegment;
  return seen[value] = std::min(most * std::clamp<int64_t>(folded, 1, kLongSegment), kLongSegment);
}

}  // namespace

int64_t FoldedElements(const Value* value, const Ranges& ranges) {
  DenseMap<const Value*, int64_t> seen;
  return FoldedBehind(value, ranges, seen);
}

int64_t LanesOfPooledRows(const Value* value) {
  ValueSet seen;
  const int64_t bits = BitsOfPooledRows(value, /*pooled=*/false, 1, seen);
  return bits == 0 ? 0 : std::min(kVectorBits / bits, kMostLanes);
}

}  // namespace fusec
