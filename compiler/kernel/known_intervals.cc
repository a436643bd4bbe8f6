// Known ranges of integers, which make index checks unnecessary or more precise.
#include <algorithm>
#include <limits>

#include "compiler/kernel/region_lowering.h"

namespace fusec {

// The range of the elements of a constant, so that they need no check as indices.
std::optional<Ranges::Interval> RegionLowering::ConstantInterval(const Value* value) const {
  constexpr int64_t kMostElements = 1 << 20;
  const TensorData* data = ConstantPayload(value);
  if (!data || data->element_count() == 0 || data->element_count() > kMostElements ||
      value->type.dtype == Dtype::kU64)
    return std::nullopt;
  Ranges::Interval interval{data->GetInt(0), data->GetInt(0)};
  for (int64_t i = 1; i < data->element_count(); ++i) {
    interval.low = std::min(interval.low, data->GetInt(i));
    interval.high = std::max(interval.high, data->GetInt(i));
  }
  return interval;
}

// The range of the elements of `value`, if each is one of constants that are looked up or chosen
// from, or a sum of such. It writes no code.
std::optional<Ranges::Interval> RegionLowering::ChoiceInterval(const Value* value) {
  const auto known = choice_intervals_.find(value);
  if (known != choice_intervals_.end()) return known->second;
  const auto interval = FindChoiceInterval(value);
  choice_intervals_[value] = interval;
  return interval;
}

std::optional<Ranges::Interval> RegionLowering::FindChoiceInterval(const Value* value) {
  if (const auto interval = ConstantInterval(value)) return interval;
  const Node* node = value->producer;
  if (node == nullptr) return std::nullopt;
  switch (node->kind) {
    case OpKind::kGather:
    case OpKind::kGatherElements:
    case OpKind::kReshape:
    case OpKind::kExpand:
      return ChoiceInterval(node->operand(0));
    case OpKind::kAdd: {
      const auto one = ChoiceInterval(node->operand(0)), other = ChoiceInterval(node->operand(1));
      if (!one || !other) return std::nullopt;
      return Ranges::Interval{one->low + other->low, one->high + other->high};
    }
    case OpKind::kWhere: {
      const auto one = ChoiceInterval(node->operand(1)), other = ChoiceInterval(node->operand(2));
      if (!one || !other) return std::nullopt;
      return Ranges::Interval{std::min(one->low, other->low), std::max(one->high, other->high)};
    }
    default:
      return std::nullopt;
  }
}

Ranges::Interval RegionLowering::IntervalOf(const Node& node, int operand, ArrayRef<Expr> index) {
  const Value* value = node.operand(operand);
  const Scalar scalar = Evaluate(value, BroadcastIndex(index, value->type.shape));
  const auto known = known_intervals_.find(scalar.text());
  if (known != known_intervals_.end()) return known->second;
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

void RegionLowering::NoteInterval(const Node& node, const Scalar& scalar, ArrayRef<Expr> index) {
  if (node.kind == OpKind::kMod && node.Int("fmod") == 0) {
    const Scalar divisor =
        Evaluate(node.operand(1), BroadcastIndex(index, node.operand(1)->type.shape));
    if (auto known = known_intervals_.find(divisor.text());
        known != known_intervals_.end() && known->second.low > 0) {
      known_intervals_[scalar.text()] = {0, known->second.high - 1};
    }
  }
  const bool least = node.kind == OpKind::kMin;
  if ((least || node.kind == OpKind::kMax) && !IsUnsigned(scalar.dtype)) {
    Ranges::Interval bound = IntervalOf(node, 0, index);
    for (size_t i = 1; i < node.operands.size(); ++i) {
      const Ranges::Interval next = IntervalOf(node, static_cast<int>(i), index);
      bound.low = least ? std::min(bound.low, next.low) : std::max(bound.low, next.low);
      bound.high = least ? std::min(bound.high, next.high) : std::max(bound.high, next.high);
    }
    known_intervals_[scalar.text()] = bound;
  }
  if ((node.kind == OpKind::kWhere || node.kind == OpKind::kAdd) && scalar.dtype == Dtype::kI32) {
    if (const auto interval = ChoiceInterval(node.result()))
      known_intervals_[scalar.text()] = *interval;
  }
  const TensorData* found =
      node.kind == OpKind::kLookup ? ConstantPayload(node.operand(2)) : nullptr;
  if (found && found->element_count() > 0) {
    Ranges::Interval& known = known_intervals_[scalar.text()];
    known = {node.Int("absent"), node.Int("absent")};
    for (int64_t i = 0; i < found->element_count(); ++i) {
      known.low = std::min(known.low, found->GetInt(i));
      known.high = std::max(known.high, found->GetInt(i));
    }
  }
  if (node.kind == OpKind::kCast) {
    const Scalar source = Evaluate(node.operand(0), index);
    // A signed type holds all values of an unsigned type if it has more bytes.
    const int needed_bytes = DtypeBytes(source.dtype) + (IsUnsigned(source.dtype) ? 1 : 0);
    const bool widens = DtypeBytes(scalar.dtype) >= needed_bytes && !IsUnsigned(scalar.dtype) &&
                        IsInteger(source.dtype);
    if (auto known = known_intervals_.find(source.text());
        widens && known != known_intervals_.end()) {
      known_intervals_[scalar.text()] = known->second;
    }
    if (auto origin = origins_.find(source.text()); widens && origin != origins_.end()) {
      origins_[scalar.text()] = origin->second;
    }
  }
}

}  // namespace fusec
