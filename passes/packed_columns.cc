#include "passes/packed_columns.h"

#include <algorithm>

#include "compiler/region/product.h"
#include "passes/graph_edit.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

// Whether `value` is computed from constants alone.
bool IsMadeOfConstants(const Value* value) {
  const NodeSet behind = NodesBehind(value);
  return std::all_of(behind.begin(), behind.end(), [](const Node* node) {
    return std::all_of(node->operands.begin(), node->operands.end(),
                       [](const Value* operand) { return operand && operand->producer; });
  });
}

// Whether a value has its own part for each column of packed weights, in its first axis.
bool HasColumns(const Value* value, int64_t columns) {
  const Shape& shape = value->type.shape;
  return !shape.empty() && shape[0].IsConstant(columns);
}

// Whether packed weights of some columns are made by the same ops as those of others, from
// constants that can be put side by side or are the same.
bool AreMadeAlike(const Value* value, int64_t columns, const Value* other, int64_t others) {
  if (value == nullptr || other == nullptr) return value == other;
  if (value == other) return !HasColumns(value, columns);
  const Shape &shape = value->type.shape, &other_shape = other->type.shape;
  if (value->type.dtype != other->type.dtype || shape.size() != other_shape.size() ||
      !HasColumns(value, columns) || !HasColumns(other, others) ||
      !std::equal(shape.begin() + 1, shape.end(), other_shape.begin() + 1))
    return false;
  const Node &node = *value->producer, &other_node = *other->producer;
  if (node.kind != other_node.kind || node.operands.size() != other_node.operands.size())
    return false;
  if (node.kind == OpKind::kConstant) return true;
  Attributes attributes = node.attributes;
  if (node.Has("shape")) attributes["shape"] = other_node.attributes.at("shape");
  if (attributes != other_node.attributes) return false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!AreMadeAlike(node.operands[i], columns, other_node.operands[i], others)) return false;
  }
  return true;
}

// Constants one after the other along their first axis, which has `columns` elements in all.
Value* SideBySide(Builder& builder, const ValueList& parts, int64_t columns) {
  std::vector<int64_t> dims = Payload(parts[0])->dims();
  dims[0] = columns;
  TensorData data(parts[0]->type.dtype, dims);
  Recipe recipe;
  ValueList used;
  std::byte* to = data.mutable_bytes();
  for (Value* part : parts) {
    Payload(part)->ForEachPiece(
        [&](const std::byte* bytes, size_t count) { to = std::copy(bytes, bytes + count, to); });
    used.push_back(recipe.Use(part));
  }
  return AddConstant(builder, recipe.Finish(recipe.Concat(used, 0), std::move(data)),
                     parts[0]->name + "_joined");
}

// `parts` are made by the same ops, and have `columns` in all.
Value* JoinedMade(Builder& builder, const ValueList& parts, int64_t columns) {
  Value* first = parts[0];
  if (std::all_of(parts.begin(), parts.end(), [&](const Value* part) { return part == first; }))
    return first;
  if (IsConstant(first)) return SideBySide(builder, parts, columns);
  const Node& node = *first->producer;
  ValueList operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    ValueList of_parts;
    for (const Value* part : parts) of_parts.push_back(part->producer->operands[i]);
    operands.push_back(JoinedMade(builder, of_parts, columns));
  }
  Attributes attributes = node.attributes;
  if (node.Has("shape")) {
    Exprs shape = node.Get<Exprs>("shape");
    shape[0] = columns;
    attributes["shape"] = std::move(shape);
  }
  return builder.Make(node.kind, operands, std::move(attributes), first->name + "_joined");
}

int64_t ColumnsOf(const Value* weights) { return *weights->type.shape[0].AsConstant(); }

}  // namespace

bool ArePackedColumns(const Value* value) {
  const auto shape = StaticShape(value->type.shape);
  return shape && shape->size() == 2 && IsMadeOfCodes(value) && IsMadeOfConstants(value);
}

bool AreMadeAlike(const Value* weights, const Value* others) {
  return AreMadeAlike(weights, ColumnsOf(weights), others, ColumnsOf(others));
}

Value* JoinPacked(Builder& builder, const ValueList& parts) {
  int64_t columns = 0;
  for (const Value* part : parts) columns += ColumnsOf(part);
  return JoinedMade(builder, parts, columns);
}

}  // namespace fusec
