#include "compiler/ops/run_time_bound.h"

#include <algorithm>
#include <deque>

#include "compiler/ir/symbolic_contents.h"
#include "compiler/ops/formula.h"

namespace fusec {
namespace {

enum class Side { kLower, kUpper };

// Finds an upper or a lower bound of the elements of a value.
class Bounds {
 public:
  Bounds(const ImportContext& context, Side side) : context_(context), side_(side) {}

  std::optional<Expr> Of(const Value* value) {
    if (!IsInteger(value->type.dtype)) return std::nullopt;
    if (const auto known = OfKnown(value)) return known;
    const Node* node = value->producer;
    return node == nullptr ? std::nullopt : OfResult(*node, *value);
  }

 private:
  // The bound of elements that do not depend on run-time data.
  std::optional<Expr> OfKnown(const Value* value) {
    const auto contents = KnownContents(value, context_);
    if (!contents || contents->empty()) return std::nullopt;
    Expr bound = contents->front();
    for (const Expr& element : *contents) bound = Outer(bound, element);
    return bound;
  }
  // Outer: the bound that holds for both numbers. Inner: the tighter of two valid bounds.
  Expr Outer(const Expr& a, const Expr& b) const {
    return side_ == Side::kUpper ? Max(a, b, context_.ranges()) : Min(a, b, context_.ranges());
  }
  Expr Inner(const Expr& a, const Expr& b) const {
    return side_ == Side::kUpper ? Min(a, b, context_.ranges()) : Max(a, b, context_.ranges());
  }
  // The bound of indices 0..size - 1.
  std::optional<Expr> OfPositions(const Expr& size) const {
    return side_ == Side::kUpper ? size - 1 : Expr(0);
  }

  std::optional<Expr> OfResult(const Node& node, const Value& value) {
    switch (node.kind) {
      case OpKind::kCast:  // values that would wrap are not sizes
        if (node.operand(0)->type.dtype == Dtype::kBool) return OfPositions(2);
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
      case OpKind::kMax:
        return side_ == Side::kUpper ? OfAll(node.operands) : OfAny(node.operands);
      case OpKind::kMin:
        return side_ == Side::kUpper ? OfAny(node.operands) : OfAll(node.operands);
      case OpKind::kClip:
        return OfClip(node);
      case OpKind::kConcat:
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
        return OfPositions(node.operand(0)->type.shape[node.Int("axis")]);
      case OpKind::kTopK:  // values of its operand, or indices
        return value.result_index == 0 ? Of(node.operand(0))
                                       : OfPositions(node.operand(0)->type.shape[node.Int("axis")]);
      default:
        return std::nullopt;
    }
  }

  // Each of `values` bounds the result: the tightest bound.
  std::optional<Expr> OfAny(ArrayRef<Value*> values) {
    std::optional<Expr> nearest;
    for (const Value* value : values) {
      const auto bound = Of(value);
      if (bound) nearest = nearest ? Inner(*nearest, *bound) : *bound;
    }
    return nearest;
  }

  // The result is one of `values`: the bound that holds for all.
  std::optional<Expr> OfAll(ArrayRef<Value*> values) {
    std::optional<Expr> farthest;
    for (const Value* value : values) {
      const auto bound = Of(value);
      if (!bound) return std::nullopt;
      farthest = farthest ? Outer(*farthest, *bound) : *bound;
    }
    return farthest;
  }

  // min(max(x, low), high): `high` is an upper bound, and `low` is a lower bound unless high < low.
  std::optional<Expr> OfClip(const Node& clip) {
    Value *x = clip.operand(0), *low = clip.operand(1), *high = clip.operand(2);
    if (side_ == Side::kUpper) {
      if (high != nullptr) return Of(high);
      return low == nullptr ? Of(x) : OfAll({x, low});
    }
    if (low == nullptr) return high == nullptr ? Of(x) : OfAll({x, high});
    return high == nullptr ? Of(low) : OfAll({low, high});
  }

  std::optional<Expr> OfSum(const Node& sum) {
    const auto a = Of(sum.operand(0)), b = Of(sum.operand(1));
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }

  std::optional<Expr> OfDifference(const Node& difference) {
    const Side other = side_ == Side::kUpper ? Side::kLower : Side::kUpper;
    const auto a = Of(difference.operand(0));
    const auto b = Bounds(context_, other).Of(difference.operand(1));
    return a && b ? std::optional(*a - *b) : std::nullopt;
  }

  // A sum of non-negative numbers: their bound times their count.
  std::optional<Expr> OfCount(const Node& sum) {
    const Value* terms = sum.operand(0);
    const auto most = Bounds(context_, Side::kUpper).Of(terms);
    const auto least = Bounds(context_, Side::kLower).Of(terms);
    if (!most || !least || !context_.ranges().ProvenNonNegative(*least)) return std::nullopt;
    Expr count(1);
    for (const int64_t axis : sum.Ints("axes")) count = count * terms->type.shape[axis];
    return (side_ == Side::kUpper ? *most : *least) * count;
  }

  const ImportContext& context_;
  const Side side_;
};

// An integer as a sum of a symbolic part and multiples of run-time values.
struct Sum {
  Expr known;
  DenseMap<const Value*, int64_t> times;  // coefficient of each value

  void Add(const Value* value, int64_t factor, const ImportContext& context) {
    if (const auto contents = KnownContents(value, context); contents && contents->size() == 1) {
      known = known + contents->front() * factor;
      return;
    }
    const Node* node = value->producer;
    const OpKind kind = node == nullptr ? OpKind::kSymbolicDims : node->kind;
    if (kind == OpKind::kAdd || kind == OpKind::kSub) {
      Add(node->operand(0), factor, context);
      Add(node->operand(1), kind == OpKind::kAdd ? factor : -factor, context);
    } else if (kind == OpKind::kReshape || kind == OpKind::kIdentity ||
               (kind == OpKind::kCast && IsInteger(node->operand(0)->type.dtype))) {
      Add(node->operand(0), factor, context);
    } else {
      times[value] += factor;
    }
  }
};

// Whether the value is a sum of bools, which is never negative.
bool IsSumOfBits(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && node->kind == OpKind::kReshape) node = node->operand(0)->producer;
  if (node == nullptr || node->kind != OpKind::kReduceSum) return false;
  const Node* cast = node->operand(0)->producer;
  return cast != nullptr && cast->kind == OpKind::kCast &&
         cast->operand(0)->type.dtype == Dtype::kBool;
}

}  // namespace

std::optional<Exprs> KnownContents(const Value* value, const ImportContext& context) {
  std::deque<TensorData> held;
  const auto constant_of = [&](const Value* constant) -> const TensorData* {
    std::optional<TensorData> data = context.TryConstant(constant);
    return data ? &held.emplace_back(*std::move(data)) : nullptr;
  };
  return SymbolicContents(value, context.ranges(), constant_of);
}

std::optional<Expr> UpperBound(const Value* value, const ImportContext& context) {
  return Bounds(context, Side::kUpper).Of(value);
}

std::optional<Expr> LowerBound(const Value* value, const ImportContext& context) {
  return Bounds(context, Side::kLower).Of(value);
}

namespace {

// Appends the elements of `sizes` to `found`. False if one of them has no bound.
bool AddSizes(ImportContext& context, Value* sizes, Exprs& found) {
  if (const auto known = KnownContents(sizes, context)) {
    found.insert(found.end(), known->begin(), known->end());
    return true;
  }
  const Node* node = sizes->producer;
  if (node != nullptr && node->kind == OpKind::kConcat) {
    return std::all_of(node->operands.begin(), node->operands.end(),
                       [&](Value* part) { return AddSizes(context, part, found); });
  }
  const std::optional<int64_t> count = sizes->type.ElementCount().AsConstant();
  const std::optional<Expr> bound = UpperBound(sizes, context);
  if (!count || !bound) return false;
  const Expr most = Max(*bound, Expr(0), context.ranges());
  const std::optional<Expr> least = LowerBound(sizes, context);
  Formula f(context);
  if (!least || !context.ranges().ProvenNonNegative(*least))
    sizes = f.Make(OpKind::kMax, {sizes, f.Number(0, sizes->type.dtype)});
  for (int64_t k = 0; k < *count; ++k)
    found.push_back(context.RunTimeCount(sizes, static_cast<int>(k), most));
  return true;
}

}  // namespace

Result<Exprs> SizesOrCounts(ImportContext& context, int i, const std::string& what) {
  Result<Exprs> known = context.SymbolicInts(i, what);
  Value* sizes = context.input(i);
  Exprs found;
  const bool is_vector = sizes != nullptr && sizes->type.rank() == 1;
  return known || !is_vector || !AddSizes(context, sizes, found) ? known : std::move(found);
}

std::optional<Expr> KnownDifference(const Value* a, const Value* b, const ImportContext& context) {
  Sum sum;
  sum.Add(a, 1, context);
  sum.Add(b, -1, context);
  for (const auto& [value, times] : sum.times) {
    if (times != 0) return std::nullopt;
  }
  return sum.known;
}

std::optional<Expr> CountBetween(ImportContext& context, Value* start, Value* limit, int64_t step) {
  const Ranges& ranges = context.ranges();
  const bool is_one =
      start->type.ElementCount().IsConstant(1) && limit->type.ElementCount().IsConstant(1);
  Value *low = step > 0 ? start : limit, *high = step > 0 ? limit : start;
  const auto most = UpperBound(high, context);
  const auto least = LowerBound(low, context);
  if (!is_one || !most || !least) return std::nullopt;
  const int64_t stride = step > 0 ? step : -step;
  const Expr bound = Max(CeilDiv(*most - *least, stride, ranges), Expr(0), ranges);
  Formula f(context);
  const auto number = [&](int64_t value) {
    return f.Number(static_cast<double>(value), Dtype::kI64);
  };
  const auto element = [&](Value* value) { return f.Cast(f.Reshape(value, {1}), Dtype::kI64); };
  if (least->IsConstant(0) && context.TryConstant(low) && stride == 1 && IsSumOfBits(high)) {
    return context.RunTimeCount(element(high), 0, bound);
  }
  Value* count = f.Sub(element(high), element(low));
  if (stride > 1) count = f.Div(f.Add(count, number(stride - 1)), number(stride));
  count = f.Make(OpKind::kMax, {count, number(0)});  // the quotient rounds toward 0
  return context.RunTimeCount(count, 0, bound);
}

}  // namespace fusec
