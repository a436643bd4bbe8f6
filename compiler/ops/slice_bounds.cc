#include "compiler/ops/slice_bounds.h"

#include <algorithm>

#include "compiler/ops/run_time_bound.h"

namespace fusec {
namespace {

// Walks from starts and ends to what they are made of, over a limited number of nodes.
class Walk {
 public:
  explicit Walk(const ImportContext& context) : context_(context) {}

  bool AddStarts(Value* starts, std::vector<SliceStart>& all) {
    if (--budget_ < 0) return false;
    if (const auto known = KnownContents(starts, context_)) {
      for (const Expr& start : *known) all.push_back({start});
      return true;
    }
    const Node* node = starts->producer;
    if (node != nullptr && node->kind == OpKind::kWhere && IsNeverTrue(node->operand(0)) &&
        node->operand(2)->type == starts->type)
      return AddStarts(node->operand(2), all);
    if (starts->type.shape == Shape{Expr(1)}) {
      all.push_back({{}, starts});
      return true;
    }
    if (node == nullptr || node->kind != OpKind::kConcat) return false;
    for (Value* operand : node->operands) {
      if (!AddStarts(operand, all)) return false;
    }
    return true;
  }

  bool ReachesEveryEnd(const Value* ends) {
    if (--budget_ < 0) return false;
    if (const auto known = context_.TryConstant(ends)) {
      for (int64_t i = 0; i < known->element_count(); ++i) {
        if (!(known->GetDouble(i) >= kOneElementStep)) return false;
      }
      return true;
    }
    const Node* node = ends->producer;
    if (node == nullptr) return false;
    const auto reaches = [&](const Value* value) { return ReachesEveryEnd(value); };
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
        return reaches(operands[2]) && (reaches(operands[1]) || IsNeverTrue(operands[0]));
      default:
        return false;
    }
  }

 private:
  // Whether all elements of a boolean tensor are false in any run.
  bool IsNeverTrue(const Value* condition) {
    if (--budget_ < 0) return false;
    if (const auto known = context_.TryConstant(condition)) return known->IsZero();
    const Node* node = condition->producer;
    return node != nullptr && node->kind == OpKind::kAnd &&
           (IsNeverTrue(node->operand(0)) || IsNeverTrue(node->operand(1)));
  }

  const ImportContext& context_;
  int budget_ = 200;
};

}  // namespace

std::optional<std::vector<SliceStart>> StartsApart(Value* starts, const ImportContext& context) {
  std::vector<SliceStart> all;
  return Walk(context).AddStarts(starts, all) ? std::optional(all) : std::nullopt;
}

bool ReachesEveryEnd(const Value* ends, const ImportContext& context) {
  return Walk(context).ReachesEveryEnd(ends);
}

}  // namespace fusec
