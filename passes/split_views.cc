#include "passes/split_views.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Whether the value is an input or a view of one.
bool IsPartOfInput(const Value* value) {
  while (value->producer && GetOpDef(value->producer->kind).op_class == OpClass::kView &&
         value->producer->operands.size() == 1)
    value = value->producer->operand(0);
  return !value->producer;
}

// Whether `value` consists of what at most `ops` cheap ops make of values that `decide` accepts;
// `decide` returns nullopt for a value whose op is to be looked at.
bool IsMadeOf(function_ref<std::optional<bool>(const Value*)> decide, const Value* value, int ops) {
  if (value == nullptr) return true;  // an operand that is absent
  if (const std::optional<bool> decided = decide(value)) return *decided;
  const Node& node = *value->producer;
  const OpDef& def = GetOpDef(node.kind);
  if (def.op_class == OpClass::kView && node.operands.size() == 1)
    return IsMadeOf(decide, node.operand(0), ops);
  return ops > 0 && def.op_class == OpClass::kPointwise && (def.algebra & kExpensive) == 0 &&
         std::all_of(node.operands.begin(), node.operands.end(),
                     [&](const Value* operand) { return IsMadeOf(decide, operand, ops - 1); });
}

constexpr int kMostOps = 6;  // of masks and positions

// Integers or bools of the caller, and constant numbers.
std::optional<bool> AreIds(const Value* value) {
  if (!value->producer) return !IsFloat(value->type.dtype);
  if (IsConstant(value)) return value->type.ElementCount().IsConstant(1);
  return std::nullopt;
}

// How many of the last axes have one element.
int64_t UnitAxes(ShapeRef shape) {
  const auto end = std::find_if(shape.rbegin(), shape.rend(),
                                [](const Expr& extent) { return !extent.IsConstant(1); });
  return end - shape.rbegin();
}

// Integers or bools that are the same along the last `axes` axes, so that no loop along these has
// to read one per element.
std::optional<bool> AreOfRows(const Value* value, int64_t axes) {
  if (IsFloat(value->type.dtype)) return false;
  if (UnitAxes(value->type.shape) >= std::min<int64_t>(axes, value->type.rank())) return true;
  if (!value->producer) return false;
  return std::nullopt;
}

// Whether the node makes a mask of ids, such as ids != 0, or converts one to numbers.
bool MakesMask(const Node& node) {
  const Value* mask = node.kind == OpKind::kCast ? node.operand(0) : node.result();
  return mask->type.dtype == Dtype::kBool && IsMadeOf(AreIds, node.result(), kMostOps);
}

// Whether the node makes positions along its last axis of several elements, such as a range plus an
// offset of each row, a mask of them, or the choice between two numbers by such a mask and ids.
bool MakesPositions(const Node& node) {
  const TensorType& type = node.result()->type;
  const int64_t axes = UnitAxes(type.shape) + 1;
  const auto of_rows = [axes](const Value* value) { return AreOfRows(value, axes); };
  const bool is_choice = node.kind == OpKind::kWhere && ScalarConstant(node.operand(1)) &&
                         ScalarConstant(node.operand(2));
  if (is_choice) {
    const auto of_rows_or_ids = [&](const Value* value) {
      const std::optional<bool> are_ids = AreIds(value);
      return are_ids ? are_ids : of_rows(value);
    };
    return IsMadeOf(of_rows_or_ids, node.operand(0), kMostOps - 1);
  }
  return !IsFloat(type.dtype) && (GetOpDef(node.kind).algebra & kExpensive) == 0 &&
         std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
           return IsMadeOf(of_rows, operand, kMostOps - 1);
         });
}

// Whether each reader may as well compute the node's result by itself: a view, numbers made from
// the index alone, ids of the caller in another type, a mask of ids, or positions.
bool CostsNothing(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  if (op_class == OpClass::kView) return node.kind != OpKind::kConcat && node.kind != OpKind::kPad;
  if (op_class != OpClass::kPointwise) return false;
  const bool is_id =
      node.kind == OpKind::kCast && node.operand(0)->type.dtype != Dtype::kBool &&
      (node.result()->type.dtype == Dtype::kI64 || node.result()->type.dtype == Dtype::kI32) &&
      IsPartOfInput(node.operand(0));
  return node.operands.empty() || is_id || MakesMask(node) || MakesPositions(node);
}

// Whether `value` is stored in any case, because an op that reads from memory reads it or a view of
// it.
bool IsStored(const ReaderMap& readers, const Value* value) {
  const auto found = readers.find(value);
  if (found == readers.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
    const OpClass op_class = GetOpDef(reader->kind).op_class;
    if (IsInPlace(*reader)) return false;  // it is computed in a loop
    return op_class == OpClass::kSequential || op_class == OpClass::kContraction ||
           (op_class == OpClass::kView && IsStored(readers, reader->result()));
  });
}

}  // namespace

Result<bool> SplitViews(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  // Walks from the end, so that a view of a view is copied together with its reader.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = *graph.nodes[i];
    if (!CostsNothing(node)) continue;
    const auto readers = Readers(graph);
    auto found = readers.find(node.result());
    if (found == readers.end()) continue;
    const bool output = IsOutput(graph, node.result());
    const bool is_view = GetOpDef(node.kind).op_class == OpClass::kView;
    if (!is_view && (output || IsStored(readers, node.result()))) continue;
    for (size_t r = output ? 0 : 1; r < found->second.size(); ++r) {
      Builder builder(graph, i + 1);
      builder.set_provenance(node.provenance);
      Value* copy = builder.Make(node.kind, node.operands, node.attributes, node.result()->name);
      for (Value*& operand : found->second[r]->operands) {
        if (operand == node.result()) operand = copy;
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace fusec
