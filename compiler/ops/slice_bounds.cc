#include "compiler/ops/slice_bounds.h"

#include <algorithm>

#include "compiler/ops/run_time_bound.h"

namespace fusec {
namespace {

// Whether all elements of a boolean tensor are false in any run.
bool IsNeverTrue(const Value* condition, const ImportContext& context) {
  if (const auto known = context.TryConstant(condition)) {
    for (int64_t i = 0; i < known->element_count(); ++i) {
      if (known->GetInt(i) != 0) return false;
    }
    return true;
  }
  const Node* node = condition->producer;
  return node != nullptr && node->kind == OpKind::kAnd &&
         (IsNeverTrue(node->operand(0), context) || IsNeverTrue(node->operand(1), context));
}

}  // namespace

std::optional<std::vector<SliceStart>> StartsApart(Value* starts, const ImportContext& context) {
  std::vector<SliceStart> all;
  if (const auto known = KnownContents(starts, context)) {
    for (const Expr& start : *known) all.push_back({start});
    return all;
  }
  const Node* node = starts->producer;
  if (node != nullptr && node->kind == OpKind::kWhere && IsNeverTrue(node->operand(0), context) &&
      node->operand(2)->type == starts->type)
    return StartsApart(node->operand(2), context);
  if (starts->type.shape == Shape{Expr(1)}) return std::vector<SliceStart>{{{}, starts}};
  if (node == nullptr || node->kind != OpKind::kConcat) return std::nullopt;
  for (Value* operand : node->operands) {
    const auto some = StartsApart(operand, context);
    if (!some) return std::nullopt;
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

bool ReachesEveryEnd(const Value* ends, const ImportContext& context) {
  if (const auto known = context.TryConstant(ends)) {
    for (int64_t i = 0; i < known->element_count(); ++i) {
      if (!(known->GetDouble(i) >= kOneElementStep)) return false;
    }
    return true;
  }
  const Node* node = ends->producer;
  if (node == nullptr) return false;
  const auto reaches = [&](const Value* value) { return ReachesEveryEnd(value, context); };
  const ValueList& operands = node->operands;
  switch (node->kind) {
    case OpKind::kCast:
    case OpKind::kIdentity:
    case OpKind::kReshape:
      return reaches(operands[0]);
    case OpKind::kMax:
      return std::any_of(operands.begin(), operands.end(), reaches);
    case OpKind::kConcat:
      return std::all_of(operands.begin(), operands.end(), reaches);
    case OpKind::kWhere:
      return reaches(operands[2]) && (reaches(operands[1]) || IsNeverTrue(operands[0], context));
    default:
      return false;
  }
}

}  // namespace fusec
