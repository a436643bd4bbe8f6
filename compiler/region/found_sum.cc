#include "compiler/region/found_sum.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/ir/sorted_parts.h"
#include "compiler/region/memory_place.h"

namespace fusec {

namespace {

bool IsPointwise(const Node& node) { return GetOpDef(node.kind).op_class == OpClass::kPointwise; }

// The gather by which an order picks the rows of a sum; null if there is none.
const Node* PickOf(const Node& sum) {
  const Value* rows = sum.operand(0);
  while (rows->producer && IsPointwise(*rows->producer) && rows->producer->operands.size() == 1)
    rows = rows->producer->operand(0);
  const Node* pick = rows->producer;
  const bool picks = pick != nullptr && pick->kind == OpKind::kGather && pick->Int("axis") == 0 &&
                     pick->operand(1)->type.rank() == 1;
  return picks ? pick : nullptr;
}

// `value` without the slice from `start` on, along its only axis, that it is; null for others.
const Value* SlicedFrom(const Value* value, int64_t start) {
  const Node* slice = value->producer;
  if (slice == nullptr || slice->kind != OpKind::kSlice || value->type.rank() != 1) return nullptr;
  const bool fits =
      slice->Get<Exprs>("starts")[0].IsConstant(start) && slice->Ints("steps")[0] == 1;
  return fits ? slice->operand(0) : nullptr;
}

// The values of a body that a kernel which finds updates knows for its own rows alone.
class OwnRows {
 public:
  OwnRows(const Node& sum, const Value* bounds) : sum_(sum), bounds_(bounds) {}

  // Whether each row of `value` is computed from that row of the sum and of the begins and ends of
  // the updates, if from them at all.
  bool AreEnoughFor(const Value* value) {
    bool reads = false;
    return KeepsRows(value, reads);
  }

 private:
  bool KeepsRows(const Value* value, bool& reads) {
    const Node* node = value->producer;
    if (value == bounds_) return false;
    if (node == nullptr) return true;
    if (node == &sum_ || IsOfBounds(value)) return reads = true;
    if (const auto seen = seen_.find(value); seen != seen_.end()) {
      reads |= seen->second;
      return true;
    }
    bool reads_rows = false;
    for (const Value* operand : node->operands) {
      bool reads_operand = false;
      if (operand == nullptr) continue;
      if (!KeepsRows(operand, reads_operand)) return false;
      if (reads_operand && !HasSameRows(*node, *operand)) return false;
      reads_rows |= reads_operand;
    }
    seen_[value] = reads_rows;
    reads |= reads_rows;
    return true;
  }
  bool IsOfBounds(const Value* value) const {
    return SlicedFrom(value, 0) == bounds_ || SlicedFrom(value, 1) == bounds_;
  }
  // Whether a row of the node's result needs that row of the operand alone.
  bool HasSameRows(const Node& node, const Value& operand) const {
    const Expr& rows = sum_.result()->type.shape[0];
    const TensorType &from = operand.type, &to = node.result()->type;
    if (from.rank() == 0 || to.rank() == 0 || from.shape[0] != rows || to.shape[0] != rows)
      return false;
    const bool is_by_element = IsPointwise(node) || node.kind == OpKind::kExpand;
    return node.kind == OpKind::kReshape || (is_by_element && from.rank() == to.rank());
  }

  const Node& sum_;
  const Value* const bounds_;
  DenseMap<const Value*, bool> seen_;  // whether it reads what is known for own rows
};

// Whether `value` is computed from `source`, in a body.
bool DependsOn(const Value* value, const Value* source, ValueSet& seen) {
  if (value == source) return true;
  if (value == nullptr || value->producer == nullptr || !seen.insert(value).second) return false;
  const ValueList& operands = value->producer->operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Value* operand) { return DependsOn(operand, source, seen); });
}

bool Contains(const ValueList& values, const Value* value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// How often the nodes of a body read a value.
int64_t Reads(const Graph& body, const Value* value) {
  int64_t reads = 0;
  for (const auto& node : body.nodes)
    reads += std::count(node->operands.begin(), node->operands.end(), value);
  return reads;
}

}  // namespace

Expr SizeOfFinding(const Expr& updates, const Expr& places, const Ranges& ranges) {
  return Max(updates, places * kUpdatesPerPlace, ranges);
}

const Value* OrderOfRows(const Node& sum) {
  const Node* pick = PickOf(sum);
  return pick == nullptr ? nullptr : pick->operand(1);
}

const Value* BoundsOfRows(const Node& sum) {
  if (sum.operands.size() < 3 || sum.operand(2) == nullptr) return nullptr;
  const Value* bounds = SlicedFrom(sum.operand(1), 0);
  return bounds != nullptr && bounds == SlicedFrom(sum.operand(2), 1) ? bounds : nullptr;
}

std::optional<FoundSum> FoundSumOf(const Node& region) {
  const Graph& body = *region.body;
  const Node* sum = nullptr;
  for (const auto& node : body.nodes) {
    if (node->kind != OpKind::kSegmentReduce || !node->Has(kFindsUpTo)) continue;
    if (sum != nullptr) return std::nullopt;
    sum = node.get();
  }
  if (sum == nullptr) return std::nullopt;
  const Value *order = OrderOfRows(*sum), *bounds = BoundsOfRows(*sum);
  const auto is_read = [](const Value* value) { return value && value->producer == nullptr; };
  if (!is_read(order) || !is_read(bounds)) return std::nullopt;
  // Nothing but the sum may read the rows that the order picks.
  if (Reads(body, order) != 1) return std::nullopt;
  const Node* pick = PickOf(*sum);
  for (const Value* rows = sum->operand(0);; rows = rows->producer->operand(0)) {
    if (Reads(body, rows) != 1 || Contains(body.outputs, rows)) return std::nullopt;
    if (rows == pick->result()) break;
  }
  const Value *places = sum->operand(3), *updates = pick->operand(0);
  for (const Value* known : {order, bounds}) {  // of the block's own rows alone
    ValueSet seen;
    if (DependsOn(updates, known, seen) || DependsOn(places, known, seen)) return std::nullopt;
  }
  OwnRows own(*sum, bounds);
  for (const Value* output : body.outputs) {
    const Shape& shape = output->type.shape;
    if (shape.empty() || shape[0] != sum->result()->type.shape[0] ||
        !Product(Shape(shape.begin() + 1, shape.end())).AsConstant() || !own.AreEnoughFor(output))
      return std::nullopt;
  }
  return FoundSum{
      sum,
      places,
      order,
      bounds,
      SizeOfFinding(places->type.shape[0], sum->result()->type.shape[0], body.SymbolRanges()),
      sum->Int(kFindsUpTo)};
}

bool IsAllThatNeedsItsSort(const Graph& program, const Node& region, const FoundSum& found) {
  const auto is_read_by_others = [&](const Value* value) {
    return Contains(program.outputs, value) ||
           std::any_of(program.nodes.begin(), program.nodes.end(), [&](const auto& reader) {
             if (!Contains(reader->operands, value)) return false;
             const auto other = FoundSumOf(*reader);
             return !other || !(other->size == found.size);
           });
  };
  const Value* bounds = OperandOf(region, found.bounds);
  return bounds != nullptr && !is_read_by_others(bounds) &&
         !is_read_by_others(OperandOf(region, found.order));
}

}  // namespace fusec
