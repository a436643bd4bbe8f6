#include "passes/drop_unit_axes.h"

#include <algorithm>

#include "passes/constant_linear.h"
#include "passes/graph_edit.h"
#include "passes/reorder_axes.h"

namespace fusec {

namespace {

bool HasUnitAxes(ShapeRef shape) {
  return std::any_of(shape.begin(), shape.end(),
                     [](const Expr& extent) { return extent.IsConstant(1); });
}

class Dropper {
 public:
  explicit Dropper(Graph& graph) : graph_(graph) {}

  bool Run() {
    return ReplaceResults(graph_, [this](const Node& node, Builder& builder) {
      const bool has_ones = node.results.size() == 1 && HasUnitAxes(node.result()->type.shape);
      return has_ones ? Rewritten(node, builder) : nullptr;
    });
  }

 private:
  // The replacement of the node's result; null if the node stays as it is.
  Value* Rewritten(const Node& node, Builder& builder) {
    if (node.kind == OpKind::kMatMul) return Product(node, builder);
    const auto is_flat = [&](const Value* operand) { return flat_.count(operand) != 0; };
    if (std::none_of(node.operands.begin(), node.operands.end(), is_flat)) return nullptr;
    if (node.kind == OpKind::kReshape) {
      Value* flat = flat_.at(node.operand(0));
      if (WithoutUnitAxes(node.result()->type.shape) == flat->type.shape)
        flat_[node.result()] = flat;
      return nullptr;
    }
    if (IsReduction(node) && node.Has("axes")) return Reduction(node, builder);
    return KeepsPlaces(node) ? Pointwise(node, builder) : nullptr;
  }

  Value* Product(const Node& node, Builder& builder) {
    const Shape &from = node.operand(0)->type.shape, &to = node.result()->type.shape;
    if (!RightWeights(node) || node.Int("transpose_a") != 0 || from.back().IsConstant(1) ||
        to.back().IsConstant(1) || WithoutUnitAxes(from).size() < 2)
      return nullptr;
    Value* product =
        builder.Make(OpKind::kMatMul, {Flat(builder, node.operand(0)), node.operand(1)},
                     node.attributes, node.result()->name);
    return Recorded(builder, product, node);
  }

  // Where the result has one element along an axis, so has every operand that has the axis.
  Value* Pointwise(const Node& node, Builder& builder) {
    const Shape& to = node.result()->type.shape;
    ValueList operands;
    for (Value* operand : node.operands) {
      if (!operand) {
        operands.push_back(nullptr);
        continue;
      }
      Shape rest;
      const size_t missing = to.size() - operand->type.shape.size();
      for (size_t axis = missing; axis < to.size(); ++axis) {
        if (!to[axis].IsConstant(1)) rest.push_back(operand->type.shape[axis - missing]);
      }
      const auto flat = flat_.find(operand);
      const bool is_made = flat != flat_.end() && flat->second->type.shape == rest;
      operands.push_back(is_made ? flat->second : ReshapeTo(builder, operand, rest, operand->name));
    }
    Value* made = builder.Make(node.kind, operands, node.attributes, node.result()->name);
    return Recorded(builder, made, node);
  }

  // A reduction along axes of more than one element.
  Value* Reduction(const Node& node, Builder& builder) {
    const Shape& from = node.operand(0)->type.shape;
    const std::vector<int64_t>& reduced = node.Ints("axes");
    std::vector<int64_t> axes;
    int64_t place = 0;  // of the axis in the flat operand
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis].IsConstant(1)) continue;
      if (std::count(reduced.begin(), reduced.end(), static_cast<int64_t>(axis)) != 0)
        axes.push_back(place);
      ++place;
    }
    if (axes.empty()) return nullptr;
    Attributes attributes = node.attributes;
    attributes["axes"] = axes;
    attributes["keepdims"] = int64_t{0};
    Value* made =
        builder.Make(node.kind, {flat_.at(node.operand(0))}, attributes, node.result()->name);
    return Recorded(builder, made, node);
  }

  Value* Flat(Builder& builder, Value* value) const {
    const auto flat = flat_.find(value);
    if (flat != flat_.end()) return flat->second;
    return ReshapeTo(builder, value, WithoutUnitAxes(value->type.shape), value->name);
  }

  // The node's result in the model's shape, from `flat`; its readers may read `flat` instead.
  Value* Recorded(Builder& builder, Value* flat, const Node& node) {
    Value* result = ReshapeTo(builder, flat, node.result()->type.shape, flat->name);
    std::swap(flat->name, node.result()->name);
    flat_[result] = flat;
    return result;
  }

  Graph& graph_;
  DenseMap<const Value*, Value*> flat_;  // the values that differ in axes of one element only
};

}  // namespace

Result<bool> DropUnitAxes(Graph& graph, const PassOptions&, PassReport&) {
  return Dropper(graph).Run();
}

}  // namespace fusec
