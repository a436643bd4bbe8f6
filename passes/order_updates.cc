#include "passes/order_updates.h"

#include <algorithm>

#include "passes/checked_indices.h"

namespace fusec {

namespace {

// The most elements of a row that are put into order, and the fewest of a row that is worth it.
constexpr int64_t kMostOrdered = 2, kFewestLookedUp = 8;

// The number of elements of a row: of all axes but the first.
int64_t Width(const Value* value) {
  const Shape& shape = value->type.shape;
  if (shape.empty()) return 0;
  return Product(Shape(shape.begin() + 1, shape.end())).AsConstant().value_or(0);
}

// The sort whose order a gather along the first axis picks rows by; null for any other node.
const Node* SortOf(const Node& node) {
  if (node.kind != OpKind::kGather || node.Int("axis") != 0) return nullptr;
  const Value* order = node.operand(1);
  const Node* sort = ProducerOf(order, OpKind::kTopK);
  const bool is_of_all = sort != nullptr && order->result_index == 1 && order->type.rank() == 1 &&
                         order->type.shape == sort->operand(0)->type.shape &&
                         node.operand(0)->type.shape[0] == order->type.shape[0];
  return is_of_all ? sort : nullptr;
}

// Builds the rows of a value in the order that a gather picks them in.
class Ordering {
 public:
  Ordering(const Node& pick, const Ranges& ranges, Builder& builder)
      : order_(pick.operand(1)),
        sort_(*order_->producer),
        name_(pick.result()->name),
        ranges_(ranges),
        builder_(builder) {}

  // Whether the rows of `value` contain some that are looked up, and all else is narrow.
  bool IsWorthIt(const Value* value) {
    bool looks_up = false;
    return CanOrder(value, looks_up) && looks_up;
  }

  Value* Ordered(Value* value) {
    if (IsNarrow(value) && !ReadsOrdered(value)) return Picked(value);
    const Node& node = *value->producer;
    if (IsLookUp(node)) {
      const Expr& rows = node.operand(0)->type.shape[0];
      return Make(OpKind::kGather, {node.operand(0), OrderedIndices(node.operand(1), rows)},
                  {{"axis", int64_t{0}}});
    }
    ValueList operands;
    for (Value* operand : node.operands)
      operands.push_back(HasRowsOf(node, operand) ? Ordered(operand) : operand);
    return Make(node.kind, operands, node.attributes);
  }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes) {
    return builder_.Make(kind, std::move(operands), std::move(attributes), name_ + "_ordered");
  }
  Value* Picked(Value* value) {
    return Make(OpKind::kGather, {value, order_}, {{"axis", int64_t{0}}});
  }

  // Indices of `rows` places in order. Those that were sorted are the numbers that the sort made.
  Value* OrderedIndices(Value* indices, const Expr& rows) {
    if (IsSorted(indices, rows)) return sort_.results[0].get();
    Value* inside = CheckedIndices(builder_, indices, rows, name_);
    return Picked(InFewestBits(builder_, inside, rows, ranges_, name_ + "_inside"));
  }
  // Whether the sort is that of these indices, which it reads as CheckedIndices gives them.
  bool IsSorted(const Value* indices, const Expr& rows) const {
    const Value* numbers = sort_.operand(0);
    if (const Node* cast = ProducerOf(numbers, OpKind::kCast)) numbers = cast->operand(0);
    const Node* inside = ProducerOf(numbers, OpKind::kGather);
    const Node* range = inside ? ProducerOf(inside->operand(0), OpKind::kRange) : nullptr;
    return range != nullptr && range->Int("start") == 0 && range->Int("delta") == 1 &&
           range->result()->type.shape[0] == rows && inside->operand(1) == indices &&
           sort_.Int("largest") == 0;
  }

  static bool IsNarrow(const Value* value) {
    return Width(value) > 0 && Width(value) <= kMostOrdered;
  }

  // Whether a node computes each row of its result from rows of the operand with the same number.
  // What other operands hold is the same for all rows.
  bool HasRowsOf(const Node& node, const Value* operand) const {
    const bool has_rows = operand->type.rank() > 0 && operand->type.shape[0] == Count();
    return has_rows &&
           (node.kind == OpKind::kReshape || operand->type.rank() == node.result()->type.rank());
  }
  bool KeepsRows(const Node& node) const {
    const Shape& shape = node.result()->type.shape;
    const bool is_of_rows = !shape.empty() && shape[0] == Count();
    const bool keeps = node.kind == OpKind::kExpand || IsPointwise(node, shape) ||
                       (node.kind == OpKind::kReshape && HasRowsOf(node, node.operand(0)));
    return is_of_rows && keeps &&
           std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
             if (operand == nullptr) return false;
             const bool is_shared = operand->type.rank() < node.result()->type.rank() ||
                                    operand->type.shape[0].IsConstant(1);
             return HasRowsOf(node, operand) || is_shared;
           });
  }
  const Expr& Count() const { return order_->type.shape[0]; }

  // A look-up of whole rows of a table, one for each row of the result.
  static bool IsLookUp(const Node& node) {
    return node.kind == OpKind::kGather && node.Int("axis") == 0 && node.operands.size() == 2 &&
           node.operand(1)->type.rank() == 1;
  }

  // Whether narrow rows are computed from nothing but look-ups by indices that are in order anyway:
  // those that were sorted, and those by which the wide rows are looked up.
  bool ReadsOrdered(const Value* value) const {
    const Node* node = value->producer;
    if (node == nullptr) return false;
    if (IsLookUp(*node)) {
      const std::pair<const Value*, Expr> look_up(node->operand(1),
                                                  node->operand(0)->type.shape[0]);
      return IsSorted(look_up.first, look_up.second) ||
             std::count(looked_up_.begin(), looked_up_.end(), look_up) > 0;
    }
    if (!KeepsRows(*node)) return false;
    bool has_rows = false;
    for (const Value* operand : node->operands) {
      if (!HasRowsOf(*node, operand)) continue;
      if (!IsNarrow(operand) || !ReadsOrdered(operand)) return false;
      has_rows = true;
    }
    return has_rows;
  }

  bool CanOrder(const Value* value, bool& looks_up) {
    if (IsNarrow(value)) return true;
    const Node* node = value->producer;
    if (node == nullptr || Width(value) == 0) return false;
    if (IsLookUp(*node)) {
      looked_up_.emplace_back(node->operand(1), node->operand(0)->type.shape[0]);
      return looks_up |= Width(value) >= kFewestLookedUp;
    }
    return KeepsRows(*node) &&
           std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
             return !HasRowsOf(*node, operand) || CanOrder(operand, looks_up);
           });
  }

  Value* const order_;
  const Node& sort_;
  const std::string& name_;
  const Ranges& ranges_;
  Builder& builder_;
  std::vector<std::pair<const Value*, Expr>> looked_up_;  // indices, and rows of the table
};

}  // namespace

Result<bool> OrderUpdates(Graph& graph, const PassOptions&, PassReport&) {
  const Ranges ranges = graph.SymbolRanges();
  DenseMap<const Node*, int> picks;  // of each sort
  for (const auto& node : graph.nodes) {
    if (const Node* sort = SortOf(*node)) ++picks[sort];
  }
  return ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    const Node* sort = SortOf(node);
    if (sort == nullptr || (picks.at(sort) < 2 && !DependsOnConstants(sort->operand(0))))
      return nullptr;
    Ordering ordering(node, ranges, builder);
    return ordering.IsWorthIt(node.operand(0)) ? ordering.Ordered(node.operand(0)) : nullptr;
  });
}

}  // namespace fusec
