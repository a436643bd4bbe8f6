#include "compiler/ir/symbolic_contents.h"

#include <limits>
#include <map>

#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

constexpr int64_t kMostElements = 256;

using Elements = std::optional<std::vector<Expr>>;
using Dims = std::vector<int64_t>;

Elements Scaled(const Node& range, int64_t count) {
  std::vector<Expr> elements;
  for (int64_t i = 0; i < count; ++i) {
    elements.emplace_back(range.Int("start") + i * range.Int("delta"));
  }
  return elements;
}

// Calls `visit` for every index of `dims`, row-major.
template <class Visit>
void ForEachPlace(const Dims& dims, Visit visit) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  Dims index(dims.size());
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (size_t axis = dims.size(); axis-- > 0 && ++index[axis] == dims[axis];) index[axis] = 0;
  }
}

int64_t Position(const Dims& index, const Dims& dims) {
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) position = position * dims[i] + index[i];
  return position;
}

// The element of an operand of `dims` that meets element `index` of a broadcast result.
int64_t BroadcastPosition(const Dims& index, const Dims& dims) {
  const size_t offset = index.size() - dims.size();
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    position = position * dims[i] + (dims[i] == 1 ? 0 : index[offset + i]);
  }
  return position;
}

class Evaluator {
 public:
  explicit Evaluator(const Ranges& ranges) : ranges_(ranges) {}

  const Elements& Of(const Value* value) {
    const auto known = memo_.find(value);
    if (known != memo_.end()) return known->second;
    Elements elements = Compute(*value);
    return memo_.emplace(value, std::move(elements)).first->second;
  }

 private:
  Elements Compute(const Value& value) {
    const Dtype dtype = value.type.dtype;
    const std::optional<Dims> dims = StaticShape(value.type.shape);
    if (IsFloat(dtype) || value.producer == nullptr || !dims) return std::nullopt;
    int64_t count = 1;
    for (int64_t dim : *dims) {
      if (dim > kMostElements) return std::nullopt;
      count *= dim;
      if (count > kMostElements) return std::nullopt;
    }
    Elements elements = Evaluate(*value.producer, *dims, count);
    if (!elements) return std::nullopt;
    for (const Expr& element : *elements) {
      if (!Fits(element, dtype)) return std::nullopt;
    }
    return elements;
  }

  Elements Evaluate(const Node& node, const Dims& dims, int64_t count) {
    switch (node.kind) {
      case OpKind::kConstant: return Literals(node.constant, count);
      case OpKind::kSymbolicDims: return node.Get<std::vector<Expr>>("values");
      case OpKind::kRange: return Scaled(node, count);
      case OpKind::kCast: return Cast(node);
      case OpKind::kIdentity:
      case OpKind::kReshape: return Of(node.operand(0));
      case OpKind::kSlice: return Slice(node, dims);
      case OpKind::kConcat: return Concat(node, dims);
      case OpKind::kGather: return Gather(node, dims);
      case OpKind::kNeg: return Elementwise(node, dims, &Evaluator::Negated);
      case OpKind::kExpand: return Elementwise(node, dims, &Evaluator::First);
      case OpKind::kAdd: return Elementwise(node, dims, &Evaluator::Sum);
      case OpKind::kSub: return Elementwise(node, dims, &Evaluator::Difference);
      case OpKind::kMul: return Elementwise(node, dims, &Evaluator::Multiple);
      case OpKind::kDiv: return Elementwise(node, dims, &Evaluator::Quotient);
      case OpKind::kMod: return Elementwise(node, dims, &Evaluator::Remainder);
      case OpKind::kMin: return Elementwise(node, dims, &Evaluator::Least);
      case OpKind::kMax: return Elementwise(node, dims, &Evaluator::Greatest);
      case OpKind::kEqual: return Elementwise(node, dims, &Evaluator::IsEqual);
      case OpKind::kLess: return Elementwise(node, dims, &Evaluator::IsLess);
      case OpKind::kLessOrEqual: return Elementwise(node, dims, &Evaluator::IsNotGreater);
      case OpKind::kGreater: return Elementwise(node, dims, &Evaluator::IsGreater);
      case OpKind::kGreaterOrEqual: return Elementwise(node, dims, &Evaluator::IsNotLess);
      case OpKind::kNot: return Elementwise(node, dims, &Evaluator::Opposite);
      case OpKind::kAnd: return Elementwise(node, dims, &Evaluator::Least);  // of 0 and 1
      case OpKind::kOr: return Elementwise(node, dims, &Evaluator::Greatest);
      case OpKind::kWhere: return Elementwise(node, dims, &Evaluator::Chosen);
      case OpKind::kReduceSum: return Folded(node, count, 0, &Evaluator::Sum);
      case OpKind::kReduceProd: return Folded(node, count, 1, &Evaluator::Multiple);
      default: return std::nullopt;
    }
  }

  // A constant must be a number of the dtype, since wrapping is not followed. Symbols are sizes;
  // only narrow and unsigned dtypes ask for a proof.
  bool Fits(const Expr& element, Dtype dtype) const {
    if (dtype == Dtype::kI64) return true;
    if (const std::optional<int64_t> number = element.AsConstant()) return InRange(*number, dtype);
    if (dtype == Dtype::kI32) return true;
    if (dtype == Dtype::kU32 || dtype == Dtype::kU64) return ranges_.ProvenNonNegative(element);
    const Ranges::Interval interval = ranges_.IntervalOf(element);
    return InRange(interval.low, dtype) && InRange(interval.high, dtype);
  }
  static bool InRange(int64_t number, Dtype dtype) {
    if (dtype == Dtype::kBool) return number == 0 || number == 1;
    if (dtype == Dtype::kI64) return true;
    if (dtype == Dtype::kU64) return number >= 0;
    const int bits = 8 * DtypeBytes(dtype);
    const int64_t low = IsUnsigned(dtype) ? 0 : -(int64_t{1} << (bits - 1));
    const int64_t high = (int64_t{1} << (IsUnsigned(dtype) ? bits : bits - 1)) - 1;
    return number >= low && number <= high;
  }

  static Elements Literals(const TensorData& data, int64_t count) {
    if (data.element_count() != count || (count > 0 && data.bytes() == nullptr)) {
      return std::nullopt;  // the payload was not loaded
    }
    std::vector<Expr> elements;
    for (int64_t i = 0; i < count; ++i) elements.emplace_back(data.GetInt(i));
    return elements;
  }

  Elements Cast(const Node& node) {
    Elements elements = Of(node.operand(0));
    if (!elements || node.result()->type.dtype != Dtype::kBool) return elements;
    for (Expr& element : *elements) {
      const std::optional<Expr> is_zero = IsEqual({element, Expr(0)});
      if (!is_zero) return std::nullopt;
      element = Expr(1) - *is_zero;
    }
    return elements;
  }

  Elements Slice(const Node& node, const Dims& dims) {
    const Elements& data = Of(node.operand(0));
    if (!data) return std::nullopt;
    const Dims from = *StaticShape(node.operand(0)->type.shape);
    const std::vector<Expr>& starts = node.Get<std::vector<Expr>>("starts");
    const std::vector<int64_t>& steps = node.Ints("steps");
    std::vector<Expr> elements;
    bool known = true;
    ForEachPlace(dims, [&](Dims index) {
      for (size_t i = 0; i < index.size(); ++i) {
        const std::optional<int64_t> start = starts[i].AsConstant();
        known = known && start;
        index[i] = start.value_or(0) + index[i] * steps[i];
        known = known && index[i] >= 0 && index[i] < from[i];
      }
      if (known) elements.push_back((*data)[Position(index, from)]);
    });
    if (!known) return std::nullopt;
    return elements;
  }

  Elements Concat(const Node& node, const Dims& dims) {
    std::vector<Expr> elements(Product(node.result()->type.shape).AsConstant().value_or(0));
    const int64_t axis = node.Int("axis");
    int64_t offset = 0;
    for (const Value* part : node.operands) {
      const Elements& data = Of(part);
      if (!data) return std::nullopt;
      const Dims from = *StaticShape(part->type.shape);
      size_t next = 0;
      ForEachPlace(from, [&](Dims index) {
        index[axis] += offset;
        elements[Position(index, dims)] = (*data)[next++];
      });
      offset += from[axis];
    }
    return elements;
  }

  Elements Gather(const Node& node, const Dims& dims) {
    const Elements data = Of(node.operand(0));
    const Elements& indices = Of(node.operand(1));
    if (!data || !indices) return std::nullopt;
    const Dims from = *StaticShape(node.operand(0)->type.shape);
    const Dims index_dims = *StaticShape(node.operand(1)->type.shape);
    const int64_t axis = node.Int("axis");
    std::vector<Expr> elements;
    bool known = true;
    ForEachPlace(dims, [&](Dims index) {
      const auto begin = index.begin() + axis;
      const Dims place(begin, begin + index_dims.size());
      std::optional<int64_t> row = (*indices)[Position(place, index_dims)].AsConstant();
      if (row && *row < 0) *row += from[axis];
      known = known && row && *row >= 0 && *row < from[axis];
      if (!known) return;
      index.erase(begin, begin + index_dims.size());
      index.insert(index.begin() + axis, *row);
      elements.push_back((*data)[Position(index, from)]);
    });
    if (!known) return std::nullopt;
    return elements;
  }

  // One element of a result from those of the operands that it meets.
  using Function = std::optional<Expr> (Evaluator::*)(const std::vector<Expr>&) const;

  Elements Elementwise(const Node& node, const Dims& dims, Function function) {
    std::vector<std::vector<Expr>> operands;
    std::vector<Dims> operand_dims;
    for (const Value* operand : node.operands) {
      const Elements& elements = Of(operand);
      if (!elements) return std::nullopt;
      operands.push_back(*elements);
      operand_dims.push_back(*StaticShape(operand->type.shape));
    }
    std::vector<Expr> elements;
    bool known = true;
    ForEachPlace(dims, [&](const Dims& index) {
      if (!known) return;
      std::vector<Expr> met;
      for (size_t i = 0; i < operands.size(); ++i) {
        met.push_back(operands[i][BroadcastPosition(index, operand_dims[i])]);
      }
      std::optional<Expr> element = (this->*function)(met);
      known = element.has_value();
      if (known) elements.push_back(*std::move(element));
    });
    if (!known) return std::nullopt;
    return elements;
  }

  // A reduction to one element is one over everything that there is.
  Elements Folded(const Node& node, int64_t count, int64_t neutral, Function function) {
    const Elements& data = Of(node.operand(0));
    if (!data || count != 1) return std::nullopt;
    Expr folded(neutral);
    for (const Expr& element : *data) folded = *(this->*function)({folded, element});
    return std::vector<Expr>{folded};
  }

  std::optional<Expr> First(const std::vector<Expr>& x) const { return x[0]; }
  std::optional<Expr> Negated(const std::vector<Expr>& x) const { return -x[0]; }
  std::optional<Expr> Sum(const std::vector<Expr>& x) const { return x[0] + x[1]; }
  std::optional<Expr> Difference(const std::vector<Expr>& x) const { return x[0] - x[1]; }
  std::optional<Expr> Multiple(const std::vector<Expr>& x) const { return x[0] * x[1]; }

  // Integer division truncates and FloorDiv rounds down: the same where both are not negative.
  std::optional<Expr> Quotient(const std::vector<Expr>& x) const {
    if (const auto [a, b] = std::pair(x[0].AsConstant(), x[1].AsConstant()); a && b) {
      if (*b == 0 || (*b == -1 && *a == std::numeric_limits<int64_t>::min())) return std::nullopt;
      return Expr(*a / *b);
    }
    if (!ranges_.ProvenNonNegative(x[0]) || !ranges_.ProvenLess(0, x[1])) return std::nullopt;
    return FloorDiv(x[0], x[1], ranges_);
  }
  std::optional<Expr> Remainder(const std::vector<Expr>& x) const {
    if (!ranges_.ProvenNonNegative(x[0]) || !ranges_.ProvenLess(0, x[1])) return std::nullopt;
    return Mod(x[0], x[1], ranges_);
  }
  std::optional<Expr> Least(const std::vector<Expr>& x) const {
    Expr least = x[0];
    for (size_t i = 1; i < x.size(); ++i) least = Min(least, x[i], ranges_);
    return least;
  }
  std::optional<Expr> Greatest(const std::vector<Expr>& x) const {
    Expr greatest = x[0];
    for (size_t i = 1; i < x.size(); ++i) greatest = Max(greatest, x[i], ranges_);
    return greatest;
  }
  std::optional<Expr> IsEqual(const std::vector<Expr>& x) const {
    if (SimplifySum(x[0] - x[1], ranges_).IsConstant(0)) return Expr(1);
    if (ranges_.ProvenLess(x[0], x[1]) || ranges_.ProvenLess(x[1], x[0])) return Expr(0);
    return std::nullopt;
  }
  std::optional<Expr> IsLess(const std::vector<Expr>& x) const {
    if (ranges_.ProvenLess(x[0], x[1])) return Expr(1);
    if (ranges_.ProvenNonNegative(x[0] - x[1])) return Expr(0);
    return std::nullopt;
  }
  std::optional<Expr> IsGreater(const std::vector<Expr>& x) const { return IsLess({x[1], x[0]}); }
  std::optional<Expr> IsNotLess(const std::vector<Expr>& x) const { return Negation(IsLess(x)); }
  std::optional<Expr> IsNotGreater(const std::vector<Expr>& x) const {
    return Negation(IsGreater(x));
  }
  std::optional<Expr> Opposite(const std::vector<Expr>& x) const { return Negation(x[0]); }
  static std::optional<Expr> Negation(const std::optional<Expr>& truth) {
    if (!truth) return std::nullopt;
    return Expr(1) - *truth;
  }
  std::optional<Expr> Chosen(const std::vector<Expr>& x) const {
    const std::optional<int64_t> condition = x[0].AsConstant();
    if (!condition) return std::nullopt;
    return *condition != 0 ? x[1] : x[2];
  }

  const Ranges& ranges_;
  std::map<const Value*, Elements> memo_;  // looked up, never iterated
};

}  // namespace

std::optional<std::vector<Expr>> SymbolicContents(const Value* value, const Ranges& ranges) {
  return Evaluator(ranges).Of(value);
}

}  // namespace fusec
