#include "passes/join_slices.h"

#include <algorithm>
#include <optional>

#include "passes/graph_edit.h"
#include "passes/reorder_axes.h"

namespace fusec {

namespace {

// A part of a concatenation: elements begin .. begin + width - 1 along `axis` of `whole`.
struct Cut {
  Value* whole = nullptr;
  int64_t axis = 0, begin = 0, width = 0;
  Shape shape;  // of the part
  bool operator==(const Cut&) const = default;
};

// The slice that a part is, perhaps with axes of one element added or removed. Of a part with such
// a reshape, the concatenated axis must have one element.
const Node* SliceOf(const Value* part, int64_t concat_axis) {
  const Node* node = part ? part->producer : nullptr;
  if (node && node->kind == OpKind::kReshape) {
    const Shape &to = node->result()->type.shape, &from = node->operand(0)->type.shape;
    if (!to[concat_axis].IsConstant(1) || WithoutUnitAxes(to) != WithoutUnitAxes(from))
      return nullptr;
    node = node->operand(0)->producer;
  }
  return node && node->kind == OpKind::kSlice ? node : nullptr;
}

std::optional<Cut> CutOf(const Value* part, int64_t concat_axis) {
  const Node* slice = SliceOf(part, concat_axis);
  if (!slice) return std::nullopt;
  const Shape &from = slice->operand(0)->type.shape, &to = slice->result()->type.shape;
  const auto& steps = slice->Ints("steps");
  Cut cut{.whole = slice->operand(0), .shape = part->type.shape};
  int axes = 0;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (steps[axis] != 1) return std::nullopt;
    if (from[axis] == to[axis]) continue;
    const auto begin = slice->Get<Exprs>("starts")[axis].AsConstant();
    const auto width = to[axis].AsConstant();
    if (!begin || !width) return std::nullopt;
    cut.axis = static_cast<int64_t>(axis);
    cut.begin = *begin;
    cut.width = *width;
    ++axes;
  }
  return axes == 1 ? std::optional(cut) : std::nullopt;
}

// The first slice, if the parts are all slices of one tensor along one axis, in order.
std::optional<Cut> FirstOfAllCuts(const Node& concat) {
  const int64_t axis = concat.Int("axis");
  const std::optional<Cut> first = CutOf(concat.operand(0), axis);
  if (!first) return std::nullopt;
  Cut wanted = *first;
  wanted.begin = 0;
  for (const Value* part : concat.operands) {
    if (CutOf(part, axis) != wanted) return std::nullopt;
    wanted.begin += first->width;
  }
  const bool is_whole = first->whole->type.shape[first->axis].IsConstant(wanted.begin);
  return is_whole ? first : std::nullopt;
}

}  // namespace

Value* JoinedSlices(const Node& concat, Builder& builder) {
  const std::optional<Cut> first = FirstOfAllCuts(concat);
  if (!first) return nullptr;
  const std::string& name = concat.result()->name;
  Value* value = first->whole;
  if (value->type == concat.result()->type && first->axis == concat.Int("axis")) return value;
  // The number of the slice becomes an axis of its own, in front of the one that was cut. That one
  // is left out if it then has one element, so that the transpose meets transposes before it.
  if (first->width != 1) {
    Shape parted = value->type.shape;
    parted[first->axis] = first->width;
    parted.insert(parted.begin() + first->axis, Expr(static_cast<int64_t>(concat.operands.size())));
    value = builder.Make(OpKind::kReshape, {value}, {{"shape", parted}}, name);
  }
  // It moves in front of the concatenated axis, which is behind as many other axes as in the parts.
  const ShapeRef before = ShapeRef(first->shape).take_front(concat.Int("axis"));
  auto others = static_cast<int64_t>(WithoutUnitAxes(before).size());
  std::vector<int64_t> perm;
  bool is_placed = false;
  for (int64_t axis = 0; axis < value->type.rank(); ++axis) {
    if (axis == first->axis) continue;
    if (others == 0 && !is_placed) {
      perm.push_back(first->axis);
      is_placed = true;
    }
    perm.push_back(axis);
    if (!value->type.shape[axis].IsConstant(1)) --others;
  }
  if (!is_placed) perm.push_back(first->axis);
  value = builder.Make(OpKind::kTranspose, {value}, {{"perm", perm}}, name);
  return ReshapeTo(builder, value, concat.result()->type.shape, name);
}

}  // namespace fusec
