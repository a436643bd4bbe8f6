#include "passes/restore_rows.h"

#include <algorithm>

#include "passes/graph_edit.h"
#include "passes/reorder_axes.h"

namespace fusec {

namespace {

class Restorer {
 public:
  explicit Restorer(Graph& graph) : graph_(graph) {}

  bool Run() {
    return ReplaceResults(graph_, [this](const Node& node, Builder& builder) {
      return node.results.size() == 1 ? Rewritten(node, builder) : nullptr;
    });
  }

 private:
  // The replacement of the node's result; null if the node stays as it is.
  Value* Rewritten(const Node& node, Builder& builder) {
    if (node.kind == OpKind::kMatMul) return Product(node, builder);
    const auto is_known = [&](Value* operand) {
      return operand && operand->type.rank() == 2 && Restored(operand);
    };
    const auto known = std::find_if(node.operands.begin(), node.operands.end(), is_known);
    if (known == node.operands.end()) return nullptr;
    const Value& restored = *Restored(*known);
    if (node.kind == OpKind::kSlice) return Slice(node, builder);
    if (IsReduction(node)) return Reduction(node, builder);
    return KeepsPlaces(node) ? Pointwise(node, RowsOf(restored), builder) : nullptr;
  }

  Value* Product(const Node& node, Builder& builder) {
    if (node.operand(1)->type.rank() != 2 || node.Int("transpose_a") != 0) return nullptr;
    Value* rows = Restored(node.operand(0));
    if (!rows) rows = RowsApart(node.operand(0), builder);
    if (!rows) return nullptr;
    return Recorded(builder,
                    builder.Make(OpKind::kMatMul, {rows, node.operand(1)}, node.attributes,
                                 node.result()->name),
                    node);
  }

  Value* Pointwise(const Node& node, ShapeRef rows, Builder& builder) {
    const Shape& to = node.result()->type.shape;
    if (to.size() != 2) return nullptr;
    ValueList operands;
    for (Value* operand : node.operands) {
      // Values that all rows share are broadcast as before.
      if (operand && operand->type.rank() == 2 && operand->type.shape[0] == to[0]) {
        Value* restored = Restored(operand);
        Shape shape(rows);
        shape.push_back(operand->type.shape[1]);
        operand =
            restored && restored->type.shape == shape
                ? restored
                : builder.Make(OpKind::kReshape, {operand}, {{"shape", shape}}, operand->name);
      } else if (operand && operand->type.rank() == 2 && !operand->type.shape[0].IsConstant(1)) {
        return nullptr;
      }
      operands.push_back(operand);
    }
    return Recorded(builder,
                    builder.Make(node.kind, operands, node.attributes, node.result()->name), node);
  }

  // A slice of columns.
  Value* Slice(const Node& node, Builder& builder) {
    Value* x = Restored(node.operand(0));
    const Shape& to = node.result()->type.shape;
    if (to[0] != node.operand(0)->type.shape[0] || node.Ints("steps")[0] != 1) return nullptr;
    Shape starts(x->type.rank(), Expr(0)), shape = x->type.shape;
    std::vector<int64_t> steps(x->type.rank(), 1);
    starts.back() = node.Get<Exprs>("starts")[1];
    shape.back() = to[1];
    steps.back() = node.Ints("steps")[1];
    return Recorded(
        builder,
        builder.Make(OpKind::kSlice, {x}, {{"starts", starts}, {"steps", steps}, {"shape", shape}},
                     node.result()->name),
        node);
  }

  // A reduction of the columns.
  Value* Reduction(const Node& node, Builder& builder) {
    if (node.Ints("axes") != std::vector<int64_t>{1}) return nullptr;
    Value* x = Restored(node.operand(0));
    Attributes attributes = node.attributes;
    attributes["axes"] = std::vector<int64_t>{x->type.rank() - 1};
    return Recorded(builder, builder.Make(node.kind, {x}, attributes, node.result()->name), node);
  }

  static Shape RowsOf(const Value& restored) {
    return Shape(restored.type.shape.begin(), restored.type.shape.end() - 1);
  }

  // What a reshape has made the matrix `value` of; null if no reshape has made it.
  static Value* FlattenedFrom(const Value* value) {
    const Node* reshape = ProducerOf(value, OpKind::kReshape);
    return reshape && value->type.rank() == 2 ? reshape->operand(0) : nullptr;
  }

  // The value of rank 2 with the axes that its rows had; null if a single axis made them.
  Value* Restored(Value* value) const {
    const auto known = restored_.find(value);
    if (known != restored_.end()) return known->second;
    Value* x = FlattenedFrom(value);
    const bool merges = x && x->type.rank() > 2 && x->type.shape.back() == value->type.shape[1] &&
                        WithoutUnitAxes(RowsOf(*x)).size() > 1;
    return merges ? x : nullptr;
  }

  // The rows of `value` with their axes, where a reshape has put both these and the axes of the
  // columns (the heads of an attention) into one axis each; null otherwise.
  Value* RowsApart(Value* value, Builder& builder) {
    Value* x = FlattenedFrom(value);
    if (!x) return nullptr;
    const Shape& from = x->type.shape;
    const Expr &rows = value->type.shape[0], &columns = value->type.shape[1];
    Expr row_axes = 1;
    for (size_t i = 0; i + 1 < from.size(); ++i) {
      row_axes = row_axes * from[i];
      if (row_axes != rows || fusec::Product(Shape(from.begin() + i + 1, from.end())) != columns)
        continue;
      Shape shape(from.begin(), from.begin() + i + 1);
      if (WithoutUnitAxes(shape).size() < 2) return nullptr;
      shape.push_back(columns);
      Value* apart = builder.Make(OpKind::kReshape, {x}, {{"shape", shape}}, value->name);
      return restored_[value] = apart;
    }
    return nullptr;
  }

  // The node's result in the model's shape, from `restored`; its readers may read that instead.
  Value* Recorded(Builder& builder, Value* restored, const Node& node) {
    Value* result = builder.Make(OpKind::kReshape, {restored},
                                 {{"shape", node.result()->type.shape}}, restored->name);
    std::swap(restored->name, node.result()->name);
    restored_[result] = restored;
    return result;
  }

  Graph& graph_;
  DenseMap<const Value*, Value*> restored_;
};

}  // namespace

Result<bool> RestoreRows(Graph& graph, const PassOptions&, PassReport&) {
  return Restorer(graph).Run();
}

}  // namespace fusec
