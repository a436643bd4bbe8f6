#include "passes/order_batch.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/graph_edit.h"
#include "passes/reorder_axes.h"

namespace fusec {

namespace {

using Axes = std::vector<int64_t>;

constexpr int64_t kMatrixAxes = 2;  // the last ones, whose order stays

// Rewrites values to the order of their batch axes in memory ("ordered").
class Orderer {
 public:
  explicit Orderer(Graph& graph) : graph_(graph) {}

  bool Run() {
    return ReplaceResults(graph_, [this](const Node& node, Builder& builder) {
      return node.results.size() == 1 ? Rewritten(node, builder) : nullptr;
    });
  }

 private:
  // A value equals `ordered`, transposed by `perm`.
  struct Order {
    Value* ordered = nullptr;
    Axes perm;
  };

  // The replacement of the node's result; null if the node stays as it is.
  Value* Rewritten(const Node& node, Builder& builder) {
    if (node.kind == OpKind::kMatMul) return Product(node, builder);
    for (const Value* operand : node.operands) {
      const auto found = orders_.find(operand);
      if (found == orders_.end()) continue;
      const Axes perm = found->second.perm;
      if (IsReduction(node)) return Reduced(node, perm, builder);
      if (operand->type.rank() == node.result()->type.rank()) return Pointwise(node, perm, builder);
    }
    return nullptr;
  }

  // How a value is transposed: by this pass, or by the model.
  Order OrderOf(Value* value) const {
    const auto found = orders_.find(value);
    if (found != orders_.end()) return found->second;
    const Node* node = value->producer;
    if (node && node->kind == OpKind::kTranspose) return {node->operand(0), node->Ints("perm")};
    Axes perm(value->type.rank());
    std::iota(perm.begin(), perm.end(), 0);
    return {value, perm};
  }

  Value* Product(const Node& node, Builder& builder) {
    const int64_t rank = node.result()->type.rank(), batch = rank - kMatrixAxes;
    if (batch < 2) return nullptr;
    // The batch axes of the result, as they follow each other in the memory of the left operand.
    const Order left = OrderOf(node.operand(0));
    if (static_cast<int64_t>(left.perm.size()) != rank) return nullptr;
    Axes order(batch);
    std::iota(order.begin(), order.end(), 0);
    const auto sort = [&](int64_t a, int64_t b) { return left.perm[a] < left.perm[b]; };
    if (std::is_sorted(order.begin(), order.end(), sort)) return nullptr;
    std::sort(order.begin(), order.end(), sort);
    std::vector<Order> operands;
    for (Value* operand : node.operands) {
      const Order from = OrderOf(operand);
      if (static_cast<int64_t>(from.perm.size()) != rank) return nullptr;
      Axes perm;
      for (const int64_t axis : order) perm.push_back(from.perm[axis]);
      if (!std::is_sorted(perm.begin(), perm.end())) return nullptr;
      perm.insert(perm.end(), from.perm.end() - kMatrixAxes, from.perm.end());
      operands.push_back({from.ordered, perm});
    }
    ValueList factors;
    for (size_t i = 0; i < operands.size(); ++i)
      factors.push_back(Transposed(builder, operands[i].ordered, operands[i].perm,
                                   node.operand(static_cast<int>(i))->name));
    Value* product = builder.Make(OpKind::kMatMul, factors, node.attributes, node.result()->name);
    Axes perm = InverseOf(order);
    for (int64_t axis = batch; axis < rank; ++axis) perm.push_back(axis);
    return Recorded(builder, product, perm, node);
  }

  // A pointwise op whose operands are all `perm` of ordered values, or have no batch axes.
  Value* Pointwise(const Node& node, const Axes& perm, Builder& builder) {
    if (!KeepsPlaces(node)) return nullptr;
    const auto stays = [&](Value* operand) { return operand && !CanBeOrdered(operand, perm); };
    if (std::any_of(node.operands.begin(), node.operands.end(), stays)) return nullptr;
    ValueList operands;
    for (Value* operand : node.operands)
      operands.push_back(operand ? Ordered(operand, perm, builder) : nullptr);
    Value* made = builder.Make(node.kind, operands, node.attributes, node.result()->name);
    return Recorded(builder, made, perm, node);
  }

  Value* Reduced(const Node& node, const Axes& perm, Builder& builder) {
    const auto batch = static_cast<int64_t>(perm.size()) - kMatrixAxes;
    const auto& axes = node.Ints("axes");
    const bool keeps_batch =
        std::all_of(axes.begin(), axes.end(), [&](int64_t axis) { return axis >= batch; });
    if (node.operands.size() != 1 || !keeps_batch || node.Int("keepdims") == 0) return nullptr;
    Value* made = builder.Make(node.kind, {orders_.at(node.operand(0)).ordered}, node.attributes,
                               node.result()->name);
    return Recorded(builder, made, perm, node);
  }

  // How many of the batch axes of `value`, an operand of a value with that many axes, have more
  // than one element.
  static int64_t BatchAxes(const Value* value, const Axes& perm) {
    const Shape& shape = value->type.shape;
    const int64_t missing = static_cast<int64_t>(perm.size() - shape.size());
    const auto batch =
        std::max<int64_t>(static_cast<int64_t>(perm.size()) - kMatrixAxes - missing, 0);
    return std::count_if(shape.begin(), shape.begin() + batch,
                         [](const Expr& extent) { return !extent.IsConstant(1); });
  }

  // Whether no element has to move that is not constant.
  bool CanBeOrdered(Value* value, const Axes& perm) const {
    const int64_t moved = BatchAxes(value, perm);
    if (moved == 0 || OrderOf(value).perm == perm) return true;
    return value->type.rank() == static_cast<int64_t>(perm.size()) &&
           (moved == 1 || IsConstant(value));
  }

  // `value` with its batch axes in the order from which `perm` makes the model's.
  Value* Ordered(Value* value, const Axes& perm, Builder& builder) const {
    const Order order = OrderOf(value);
    if (order.perm == perm) return order.ordered;
    if (BatchAxes(value, perm) == 0) return value;
    return Transposed(builder, value, InverseOf(perm), value->name);
  }

  // transpose(value), or a reshape if only axes of one element change places.
  static Value* Transposed(Builder& builder, Value* value, const Axes& perm,
                           const std::string& name) {
    if (std::is_sorted(perm.begin(), perm.end())) return value;
    Shape shape;
    Axes moved;
    for (const int64_t axis : perm) {
      shape.push_back(value->type.shape[axis]);
      if (!shape.back().IsConstant(1)) moved.push_back(axis);
    }
    if (std::is_sorted(moved.begin(), moved.end()))
      return builder.Make(OpKind::kReshape, {value}, {{"shape", shape}}, name);
    return builder.Make(OpKind::kTranspose, {value}, {{"perm", perm}}, name);
  }

  // The node's result in the model's order, from `made`; its readers may read `made` instead.
  Value* Recorded(Builder& builder, Value* made, const Axes& perm, const Node& node) {
    Value* result = builder.Make(OpKind::kTranspose, {made}, {{"perm", perm}}, made->name);
    std::swap(made->name, node.result()->name);
    orders_[result] = {made, perm};
    return result;
  }

  Graph& graph_;
  DenseMap<const Value*, Order> orders_;  // of the results that this pass made
};

}  // namespace

Result<bool> OrderBatch(Graph& graph, const PassOptions&, PassReport&) {
  return Orderer(graph).Run();
}

}  // namespace fusec
