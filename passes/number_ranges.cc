#include "passes/number_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/derivation.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int kDeepest = 24;
// f16 holds all whole numbers up to this magnitude.
constexpr double kGreatestOfHalves = 2048;

NumberRange Exactly(double number) {
  const bool is_half = HalfToDouble(DoubleToHalf(number)) == number;
  return {number, number, number == std::trunc(number), is_half};
}

NumberRange OfDtype(Dtype dtype) {
  if (dtype == Dtype::kBool) return {0, 1, true, true};
  if (!IsInteger(dtype)) return {.is_half = dtype == Dtype::kF16};
  const int bits = 8 * DtypeBytes(dtype) - (IsUnsigned(dtype) ? 0 : 1);
  const double above = std::ldexp(1.0, bits);
  return {IsUnsigned(dtype) ? 0 : -above, above - 1, true, false};
}

NumberRange Union(const NumberRange& a, const NumberRange& b) {
  return {std::min(a.least, b.least), std::max(a.greatest, b.greatest), a.is_whole && b.is_whole,
          a.is_half && b.is_half};
}

NumberRange OfElements(const TensorData& data) {
  if (data.element_count() == 0) return {};
  NumberRange range = Exactly(data.GetDouble(0));
  for (int64_t i = 1; i < data.element_count(); ++i)
    range = Union(range, Exactly(data.GetDouble(i)));
  return range;
}

class RangeFinder {
 public:
  // `value` belongs to the program of `derivation`, or to the graph if that is null.
  NumberRange Of(const Value* value, const Derivation* derivation, int depth) {
    const auto known = known_.find(value);
    if (known != known_.end()) return known->second;
    NumberRange range = Find(value, derivation, depth);
    // The sum of infinities of both signs.
    if (std::isnan(range.least)) range.least = -std::numeric_limits<double>::infinity();
    if (std::isnan(range.greatest)) range.greatest = std::numeric_limits<double>::infinity();
    known_[value] = range;
    return range;
  }

 private:
  NumberRange Find(const Value* value, const Derivation* derivation, int depth) {
    const NumberRange of_dtype = OfDtype(value->type.dtype);
    if (depth > kDeepest) return of_dtype;
    if (value->producer == nullptr) {
      if (derivation == nullptr) return of_dtype;
      const auto& inputs = derivation->program->inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].get() == value) return OfMade(*derivation->sources[i], depth + 1);
      }
      return of_dtype;
    }
    const Node& node = *value->producer;
    NumberRange range =
        node.kind == OpKind::kConstant ? OfConstant(value, depth) : OfNode(node, derivation, depth);
    // Whatever the ops say, integers cannot leave their dtype; those that might have wrapped around
    // are anywhere in it.
    if (IsInteger(value->type.dtype) &&
        (range.least < of_dtype.least || range.greatest > of_dtype.greatest))
      return of_dtype;
    range.is_half |= of_dtype.is_half;
    return range;
  }

  NumberRange OfMade(const Derivation& made, int depth) {
    if (made.program) return Of(made.program->outputs[0], &made, depth);
    const bool is_chosen = !made.is_initializer && made.data.element_count() > 0;
    return is_chosen ? OfElements(made.data) : OfDtype(made.type.dtype);
  }

  NumberRange OfConstant(const Value* value, int depth) {
    const Node& node = *value->producer;
    const NumberRange of_dtype = OfDtype(value->type.dtype);
    if (node.derivation && (node.derivation->program || !node.derivation->is_initializer)) {
      const NumberRange range = OfMade(*node.derivation, depth);
      if (range.is_whole || range.is_half || std::isfinite(range.greatest)) return range;
    }
    if (of_dtype.is_whole && DtypeBytes(value->type.dtype) == 1) return of_dtype;
    const std::optional<double> number = ScalarConstant(value);
    return number ? Exactly(*number) : of_dtype;
  }

  NumberRange OfNode(const Node& node, const Derivation* derivation, int depth) {
    const auto of = [&](int i) { return Of(node.operand(i), derivation, depth + 1); };
    const auto of_all = [&](int first = 0) {
      NumberRange range = of(first);
      for (int i = first + 1; i < static_cast<int>(node.operands.size()); ++i)
        range = Union(range, of(i));
      return range;
    };
    const NumberRange of_dtype = OfDtype(node.result()->type.dtype);
    switch (node.kind) {
      case OpKind::kCast:
        return OfCast(of(0), node);
      case OpKind::kFromE4M3:
        return {-448, 448, false, true};
      case OpKind::kUnpackInt4:
        return {0, 15, true, true};
      case OpKind::kRound:
      case OpKind::kFloor:
      case OpKind::kCeil: {
        const NumberRange x = of(0);
        return {std::floor(x.least), std::ceil(x.greatest), true, x.is_half};
      }
      case OpKind::kAdd: {
        const NumberRange a = of(0), b = of(1);
        return {a.least + b.least, a.greatest + b.greatest, a.is_whole && b.is_whole};
      }
      case OpKind::kSub: {
        const NumberRange a = of(0), b = of(1);
        return {a.least - b.greatest, a.greatest - b.least, a.is_whole && b.is_whole};
      }
      case OpKind::kMul:
        return {.is_whole = of(0).is_whole && of(1).is_whole};
      case OpKind::kNeg: {
        const NumberRange x = of(0);
        return {-x.greatest, -x.least, x.is_whole, x.is_half};
      }
      case OpKind::kAbs: {
        const NumberRange x = of(0);
        return {0, std::max(-x.least, x.greatest), x.is_whole, x.is_half};
      }
      case OpKind::kRelu: {
        const NumberRange x = of(0);
        return {std::max(0.0, x.least), std::max(0.0, x.greatest), x.is_whole, x.is_half};
      }
      case OpKind::kMin:
      case OpKind::kMax:
        return OfExtremum(node, of);
      case OpKind::kClip:
        return OfClip(node, of);
      case OpKind::kWhere:
        return of_all(1);
      case OpKind::kReduceMax:
      case OpKind::kReduceMin:
        return of(0);
      case OpKind::kTrilu:
      case OpKind::kUnfold:
        return Union(of(0), Exactly(0));
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kGatherND:  // zeros, if the policy says so, for indices out of range
        return Union(of(0), Exactly(0));
      default:
        return GetOpDef(node.kind).op_class == OpClass::kView ? of_all() : of_dtype;
    }
  }

  static NumberRange OfCast(NumberRange x, const Node& node) {
    const Dtype from = node.operand(0)->type.dtype, to = node.result()->type.dtype;
    if (to == Dtype::kBool) return OfDtype(to);
    if (IsFloat(to)) return {x.least, x.greatest, x.is_whole, x.is_half || to == Dtype::kF16};
    // A NaN becomes 0.
    if (IsFloat(from)) x = Union({std::trunc(x.least), std::trunc(x.greatest)}, Exactly(0));
    x.is_whole = true;
    return x;
  }

  template <class OperandRange>
  static NumberRange OfExtremum(const Node& node, const OperandRange& of) {
    NumberRange range = of(0);
    for (int i = 1; i < static_cast<int>(node.operands.size()); ++i) {
      const NumberRange other = of(i);
      const auto better = [&](double a, double b) {
        return node.kind == OpKind::kMin ? std::min(a, b) : std::max(a, b);
      };
      range = {better(range.least, other.least), better(range.greatest, other.greatest),
               range.is_whole && other.is_whole, range.is_half && other.is_half};
    }
    return range;
  }

  template <class OperandRange>
  static NumberRange OfClip(const Node& node, const OperandRange& of) {
    NumberRange range = of(0);
    if (node.operand(1) != nullptr) {
      const NumberRange low = of(1);
      range = {std::max(range.least, low.least), std::max(range.greatest, low.greatest),
               range.is_whole && low.is_whole, range.is_half && low.is_half};
    }
    if (node.operand(2) != nullptr) {
      const NumberRange high = of(2);
      range = {std::min(range.least, high.least), std::min(range.greatest, high.greatest),
               range.is_whole && high.is_whole, range.is_half && high.is_half};
    }
    return range;
  }

  DenseMap<const Value*, NumberRange> known_;
};

}  // namespace

NumberRange RangeOf(const Value* value) { return RangeFinder().Of(value, nullptr, 0); }

bool IsExactInHalf(const Value* value) {
  const NumberRange range = RangeOf(value);
  return range.is_half || (range.is_whole && range.least >= -kGreatestOfHalves &&
                           range.greatest <= kGreatestOfHalves);
}

}  // namespace fusec
