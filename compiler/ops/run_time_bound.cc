#include "compiler/ops/run_time_bound.h"

#include <deque>

#include "compiler/ir/symbolic_contents.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"

namespace fusec {
namespace {

class Bounds {
 public:
  explicit Bounds(const ImportContext& context) : context_(context) {}

  std::optional<Expr> Of(const Value* value) {
    if (!IsInteger(value->type.dtype)) return std::nullopt;
    if (const auto known = OfKnown(value)) return known;
    const Node* node = value->producer;
    return node == nullptr ? std::nullopt : OfResult(*node, *value);
  }

 private:
  // The greatest of elements that do not depend on run-time data.
  std::optional<Expr> OfKnown(const Value* value) {
    std::deque<TensorData> held;
    const auto constant_of = [&](const Value* constant) -> const TensorData* {
      std::optional<TensorData> data = context_.TryConstant(constant);
      return data ? &held.emplace_back(*std::move(data)) : nullptr;
    };
    const auto contents = SymbolicContents(value, context_.ranges(), constant_of);
    if (!contents || contents->empty()) return std::nullopt;
    Expr greatest = contents->front();
    for (const Expr& element : *contents) greatest = Max(greatest, element, context_.ranges());
    return greatest;
  }

  std::optional<Expr> OfResult(const Node& node, const Value& value) {
    switch (node.kind) {
      case OpKind::kCast:  // numbers that another dtype would wrap are no sizes
        if (node.operand(0)->type.dtype == Dtype::kBool) return Expr(1);
        if (value.type.dtype != Dtype::kI64 && value.type.dtype != Dtype::kI32) return std::nullopt;
        return Of(node.operand(0));
      case OpKind::kExpand:
      case OpKind::kGather:
      case OpKind::kIdentity:
      case OpKind::kReduceMax:
      case OpKind::kReduceMin:
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kTranspose:
        return Of(node.operand(0));
      case OpKind::kMin:
        return OfAny(node.operands);
      case OpKind::kClip:
        if (node.operand(2) != nullptr) return Of(node.operand(2));
        return node.operand(1) == nullptr ? Of(node.operand(0))
                                          : OfAll({node.operand(0), node.operand(1)});
      case OpKind::kConcat:
      case OpKind::kMax:
        return OfAll(node.operands);
      case OpKind::kWhere:
        return OfAll({node.operand(1), node.operand(2)});
      case OpKind::kAdd:
        return OfSum(node);
      case OpKind::kSub:
        return OfDifference(node);
      case OpKind::kReduceSum:
        return OfCount(node);
      case OpKind::kArgMax:
      case OpKind::kArgMin:
        return node.operand(0)->type.shape[node.Int("axis")] - 1;
      case OpKind::kTopK:  // of its operand's elements, or of places
        return value.result_index == 0 ? Of(node.operand(0))
                                       : node.operand(0)->type.shape[node.Int("axis")] - 1;
      default:
        return std::nullopt;
    }
  }

  // What is below all of `values` is below each.
  std::optional<Expr> OfAny(ArrayRef<Value*> values) {
    std::optional<Expr> least;
    for (const Value* value : values) {
      const auto bound = Of(value);
      if (bound) least = least ? Min(*least, *bound, context_.ranges()) : *bound;
    }
    return least;
  }

  std::optional<Expr> OfAll(ArrayRef<Value*> values) {
    std::optional<Expr> greatest;
    for (const Value* value : values) {
      const auto bound = Of(value);
      if (!bound) return std::nullopt;
      greatest = greatest ? Max(*greatest, *bound, context_.ranges()) : *bound;
    }
    return greatest;
  }

  std::optional<Expr> OfSum(const Node& sum) {
    const auto a = Of(sum.operand(0)), b = Of(sum.operand(1));
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }

  std::optional<Expr> OfDifference(const Node& difference) {
    const auto a = Of(difference.operand(0));
    const TensorData* constant = Payload(difference.operand(1));
    if (!a || constant == nullptr || constant->element_count() != 1) return std::nullopt;
    return *a - constant->GetInt(0);
  }

  // Of bits: how many there are.
  std::optional<Expr> OfCount(const Node& sum) {
    const Value* terms = sum.operand(0);
    const auto most = Of(terms);
    if (!most || !context_.ranges().ProvenNonNegative(*most)) return std::nullopt;
    Expr count(1);
    for (const int64_t axis : sum.Ints("axes")) count = count * terms->type.shape[axis];
    return *most * count;
  }

  const ImportContext& context_;
};

// Whether it is a sum of bits, which is not below 0.
bool IsSumOfBits(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && node->kind == OpKind::kReshape) node = node->operand(0)->producer;
  if (node == nullptr || node->kind != OpKind::kReduceSum) return false;
  const Node* cast = node->operand(0)->producer;
  return cast != nullptr && cast->kind == OpKind::kCast &&
         cast->operand(0)->type.dtype == Dtype::kBool;
}

}  // namespace

std::optional<Expr> UpperBound(const Value* value, const ImportContext& context) {
  return Bounds(context).Of(value);
}

std::optional<Expr> CountBelowInput(ImportContext& context, int i, const Expr& start,
                                    int64_t step) {
  const Ranges& ranges = context.ranges();
  Value* limit = context.input(i);
  const auto most = UpperBound(limit, context);
  if (!most || step < 1 || !limit->type.ElementCount().IsConstant(1)) return std::nullopt;
  const Expr bound = Max(CeilDiv(*most - start, step, ranges), Expr(0), ranges);
  Formula f(context);
  const auto number = [&](int64_t value) {
    return f.Number(static_cast<double>(value), Dtype::kI64);
  };
  Value* count = f.Cast(f.Reshape(limit, {1}), Dtype::kI64);
  if (start.IsConstant(0) && step == 1 && IsSumOfBits(limit)) {
    return context.RunTimeCount(count, 0, bound);
  }
  if (!start.IsConstant(0)) count = f.Sub(count, SizeOf(f, start));
  if (step > 1) count = f.Div(f.Add(count, number(step - 1)), number(step));
  count = f.Make(OpKind::kMax, {count, number(0)});  // of a quotient that is rounded toward 0
  return context.RunTimeCount(count, 0, bound);
}

}  // namespace fusec
