#include "passes/row_wise.h"

#include <algorithm>

#include "compiler/index/variables.h"
#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/reducers.h"
#include "passes/op_probe.h"

namespace fusec {

namespace {

constexpr const char* kByPlace = "it depends on the positions of items in the batch";

bool Contains(const Expr& expr, const std::string& symbol) {
  std::vector<std::string> names;
  expr.CollectSymbols(names);
  return std::find(names.begin(), names.end(), symbol) != names.end();
}

// Follows an arbitrary element of a result to the elements of the operands from which it is made.
class RowProbe : public OpProbe {
 public:
  RowProbe(const Node& node, const Items& items, function_ref<bool(const Value*)> is_by_item)
      : items_(items), is_by_item_(is_by_item), ranges_(items.ranges()) {
    node_ = &node;
    item_ = SetVariable(ranges_, "item", 0, Expr::Symbol(items.batch()) - 1);
  }

  std::optional<std::string> Probe(int result) {
    const Shape& shape = node_->result(result)->type.shape;
    const auto rows = items_.RowsPerItem(shape);
    if (!rows) return "the rows of its result do not belong to items of the batch";
    result_number_ = result;
    index_ = AnyIndex(shape, ranges_);
    const Expr row = SetVariable(ranges_, "row", 0, *rows - 1);
    index_[0] = item_ * *rows + (rows->IsConstant(1) ? Expr(0) : row);
    Follow();
    return reason_;
  }

  const Ranges& ranges() const override { return ranges_; }
  Scalar Load(int operand, ArrayRef<Expr> index) override {
    const Value* value = node_->operands[operand];
    Look(value, index);
    return {kScalar, value->type.dtype};
  }
  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                     function_ref<Scalar()> then, function_ref<Scalar()> otherwise) override {
    if (ranges_.ProvenLess(position, limit)) return then();
    if (ranges_.ProvenNonNegative(position - limit)) return otherwise();
    if (IsOfItem(position) || IsOfItem(limit)) Refuse(kByPlace);
    then();
    otherwise();
    return {kScalar, dtype};
  }
  Scalar DataFromIndex(const Expr& index, Dtype dtype) override {
    if (IsOfItem(index)) Refuse(kByPlace);
    return {kScalar, dtype};
  }

 protected:
  Expr AnyBelow(const Expr& extent) override {
    if (extent.IsConstant(1)) return 0;
    return SetVariable(ranges_, "any_" + std::to_string(steps_++), 0, extent - 1);
  }

 private:
  void Refuse(const std::string& reason) {
    if (!reason_) reason_ = reason;
  }
  bool IsOfItem(const Expr& expr) const {
    return Contains(expr, *item_.AsSymbol()) || items_.DependOn(expr);
  }

  void Follow() {
    const OpFunctions& functions = GetOpDef(node_->kind).functions;
    if (functions.lower) {
      functions.lower(*this);
    } else if (node_->kind == OpKind::kMatMul) {
      const Expr k = AnyBelow(MatMulDepth(*node_));
      for (int side = 0; side < 2; ++side)
        Look(node_->operand(side), MatMulOperandIndex(*node_, side, index_, k));
    } else if (IsReducer(*node_) && node_->Has("axes")) {
      Exprs k;
      for (const Expr& dim : ReducedDims(*node_)) k.push_back(AnyBelow(dim));
      Look(node_->operand(0), ReductionOperandIndex(*node_, index_, k));
    } else if (node_->operands.size() == 1 && node_->Has("axis")) {
      FollowLine(node_->Int("axis"));
    } else {
      Refuse(std::string("no rule tells which rows ") + GetOpDef(node_->kind).text + " reads");
    }
  }

  // For an element that depends on a whole line of the operand along `axis`: ArgMax, CumSum, TopK.
  void FollowLine(int64_t axis) {
    const Shape& shape = node_->operand(0)->type.shape;
    Exprs index = index_;
    if (index.size() < shape.size())
      index.insert(index.begin() + axis, Expr(0));
    else if (IsOfItem(index[axis]))
      Refuse(kByPlace);
    index[axis] = AnyBelow(shape[axis]);
    Look(node_->operand(0), index);
  }

  // Checks an element of an operand on which the result's element depends.
  void Look(const Value* value, ArrayRef<Expr> index) {
    if (!is_by_item_(value)) {
      if (std::any_of(index.begin(), index.end(), [&](const Expr& at) { return IsOfItem(at); }))
        Refuse(kByPlace);
      return;
    }
    const Expr rows = *items_.RowsPerItem(value->type.shape);
    const Expr row = index[0] - item_ * rows;
    const bool is_own =
        !IsOfItem(row) && ranges_.ProvenNonNegative(row) && ranges_.ProvenLess(row, rows) &&
        std::none_of(index.begin() + 1, index.end(), [&](const Expr& at) { return IsOfItem(at); });
    if (!is_own) Refuse("it reads rows of \"" + value->name + "\" that belong to other items");
  }

  const Items& items_;
  function_ref<bool(const Value*)> is_by_item_;
  Ranges ranges_;
  Expr item_;
  std::optional<std::string> reason_;
  int steps_ = 0;
};

}  // namespace

bool Items::DependOn(const Expr& expr) const { return Contains(expr, batch_); }

std::optional<Expr> Items::RowsPerItem(ShapeRef shape) const {
  if (shape.empty()) return std::nullopt;
  const Expr batch = Expr::Symbol(batch_);
  const Expr rows = FloorDiv(shape[0], batch, ranges_);
  if (DependOn(rows) || rows * batch != shape[0]) return std::nullopt;
  for (const Expr& dim : shape.drop_front()) {
    if (DependOn(dim)) return std::nullopt;
  }
  return rows;
}

std::optional<std::string> WhyNotRowWise(const Node& node, const Items& items,
                                         function_ref<bool(const Value*)> is_by_item) {
  for (const Value* operand : node.operands) {
    if (!operand || is_by_item(operand)) continue;
    const Shape& shape = operand->type.shape;
    if (std::any_of(shape.begin(), shape.end(),
                    [&](const Expr& dim) { return items.DependOn(dim); }))
      return "it reads \"" + operand->name + "\", which is computed per item";
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (auto reason = RowProbe(node, items, is_by_item).Probe(static_cast<int>(i))) return reason;
  }
  return std::nullopt;
}

}  // namespace fusec
