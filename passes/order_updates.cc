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
      : order_(pick.operand(1)), name_(pick.result()->name), ranges_(ranges), builder_(builder) {}

  // Whether the rows of `value` contain some that are looked up, and all else is narrow.
  bool IsWorthIt(const Value* value) const {
    bool looks_up = false;
    return CanOrder(value, looks_up) && looks_up;
  }

  Value* Ordered(Value* value) {
    if (Width(value) <= kMostOrdered) return Picked(value);
    const Node& node = *value->producer;
    if (IsLookUp(node)) {
      const Expr& rows = node.operand(0)->type.shape[0];
      Value* inside = CheckedIndices(builder_, node.operand(1), rows, name_);
      inside = InFewestBits(builder_, inside, rows, ranges_, name_ + "_inside");
      return Make(OpKind::kGather, {node.operand(0), Picked(inside)}, {{"axis", int64_t{0}}});
    }
    ValueList operands;
    for (Value* operand : node.operands)
      operands.push_back(HasRows(operand, value) ? Ordered(operand) : operand);
    return Make(node.kind, operands, node.attributes);
  }

 private:
  Value* Make(OpKind kind, ValueList operands, Attributes attributes) {
    return builder_.Make(kind, std::move(operands), std::move(attributes), name_ + "_ordered");
  }
  Value* Picked(Value* value) {
    return Make(OpKind::kGather, {value, order_}, {{"axis", int64_t{0}}});
  }

  // Whether the rows of `operand` are those of the result that is computed from it.
  bool HasRows(const Value* operand, const Value* result) const {
    const Shape &shape = operand->type.shape, &order = order_->type.shape;
    return shape.size() == result->type.shape.size() && shape[0] == order[0];
  }

  // A look-up of whole rows of a table, one for each row of the result.
  static bool IsLookUp(const Node& node) {
    return node.kind == OpKind::kGather && node.Int("axis") == 0 && node.operands.size() == 2 &&
           node.operand(1)->type.rank() == 1;
  }

  bool CanOrder(const Value* value, bool& looks_up) const {
    if (Width(value) == 0) return false;
    if (Width(value) <= kMostOrdered) return true;
    const Node* node = value->producer;
    if (node == nullptr) return false;
    if (IsLookUp(*node)) return looks_up |= Width(value) >= kFewestLookedUp;
    const bool keeps_rows = node->kind == OpKind::kExpand || IsPointwise(*node, value->type.shape);
    if (!keeps_rows) return false;
    return std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
      if (operand == nullptr) return false;
      if (HasRows(operand, value)) return CanOrder(operand, looks_up);
      // It is the same for all rows.
      const Shape& shape = operand->type.shape;
      return shape.size() < value->type.shape.size() || shape[0].IsConstant(1);
    });
  }

  Value* const order_;
  const std::string& name_;
  const Ranges& ranges_;
  Builder& builder_;
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
