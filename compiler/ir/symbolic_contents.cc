#include "compiler/ir/symbolic_contents.h"

#include <cmath>
#include <unordered_map>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

constexpr int64_t kMostElements = 256;
constexpr int kDeepest = 500;  // longest chain of ops followed, so that no model exhausts the stack

using Elements = std::optional<Exprs>;
using Dims = std::vector<int64_t>;

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

// The position in an operand of `dims` that corresponds to element `index` of a broadcast result.
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
  Evaluator(const Ranges& ranges, ConstantLookup constant_of)
      : ranges_(ranges), constant_of_(constant_of) {}

  const Elements& Of(const Value* value) {
    const auto known = memo_.find(value);
    if (known != memo_.end()) return known->second;
    if (depth_ == kDeepest) return unknown_;
    ++depth_;
    Elements elements = Compute(*value);
    --depth_;
    return memo_.try_emplace(value, std::move(elements)).first->second;
  }

 private:
  Elements Compute(const Value& value) {
    const Dtype dtype = value.type.dtype;
    const std::optional<Dims> dims = StaticShape(value.type.shape);
    if (value.producer == nullptr || !dims) return std::nullopt;
    int64_t count = 1;
    for (int64_t dim : *dims) {
      if (dim > kMostElements) return std::nullopt;
      count *= dim;
      if (count > kMostElements) return std::nullopt;
    }
    Elements elements = Evaluate(*value.producer, *dims, count);
    if (!elements && constant_of_) {
      if (const TensorData* data = constant_of_(&value)) elements = Literals(*data, count);
    }
    if (!elements) return std::nullopt;
    for (const Expr& element : *elements) {
      if (!Fits(element, dtype)) return std::nullopt;
    }
    return elements;
  }

  Elements Evaluate(const Node& node, const Dims& dims, int64_t count) {
    if (node.kind == OpKind::kConstant) {
      return node.Has(kUpdatable) ? std::nullopt : Literals(node.constant, count);
    }
    if (node.kind == OpKind::kScatterElements) return Scattered(node);
    const OpDef& def = GetOpDef(node.kind);
    const bool moves = def.op_class == OpClass::kView || def.op_class == OpClass::kGather;
    const auto symbolic = IntegerFactsOf(node.kind).symbolic;
    if (!moves && symbolic == nullptr) return std::nullopt;
    if (IsFloat(node.results[0]->type.dtype) && !moves && !KeepsWholeNumbers(node.kind)) {
      return std::nullopt;
    }
    if (const auto bound = ClampedTo(node, count)) return bound;
    std::vector<const Elements*> operands;
    for (const Value* operand : node.operands) {
      operands.push_back(&Of(operand));
      if (!*operands.back()) return std::nullopt;
    }
    if (moves) return Moved(node, dims);
    if (def.op_class == OpClass::kReduction) {
      // A reduction to one element folds all elements; reductions to several elements are not
      // followed.
      const auto folded = count == 1 ? symbolic({node, {}, **operands[0], ranges_}) : std::nullopt;
      if (!folded) return std::nullopt;
      return Exprs{*folded};
    }
    return ForEachElement(dims, [&](const Dims& index) {
      Exprs met;
      for (size_t i = 0; i < operands.size(); ++i) {
        const Dims from = *StaticShape(node.operands[i]->type.shape);
        met.push_back((**operands[i])[BroadcastPosition(index, from)]);
      }
      return symbolic({node, index, met, ranges_});
    });
  }

  // min(a, max(b, x)) with b >= a is a, and max(a, min(b, x)) with b <= a as well, whatever x is.
  // Exporters write a number of classes so, where more are counted if there are greater ids.
  Elements ClampedTo(const Node& node, int64_t count) {
    if (count != 1 || node.operands.size() != 2) return std::nullopt;
    const bool is_min = node.kind == OpKind::kMin;
    if (!is_min && node.kind != OpKind::kMax) return std::nullopt;
    for (const int side : {0, 1}) {
      const Node* inner = node.operand(1 - side)->producer;
      if (!inner || inner->kind != (is_min ? OpKind::kMax : OpKind::kMin)) continue;
      const Elements bound = Of(node.operand(side));
      for (const Value* other : inner->operands) {
        const Elements& limit = Of(other);
        if (!bound || !limit) continue;
        const Expr rest = is_min ? (*limit)[0] - (*bound)[0] : (*bound)[0] - (*limit)[0];
        if (ranges_.ProvenNonNegative(rest)) return bound;
      }
    }
    return std::nullopt;
  }

  // The elements of a vector, of which some are replaced at known places: the shape of index_copy's
  // rows, as TorchScript's exporter writes it.
  Elements Scattered(const Node& node) {
    const Elements data = Of(node.operand(0));
    const Elements places = Of(node.operand(1)), updates = Of(node.operand(2));
    if (!data || !places || !updates || node.operand(0)->type.rank() != 1 ||
        node.Get<std::string>("reduction") != "none")
      return std::nullopt;
    Exprs elements = *data;
    for (size_t i = 0; i < places->size(); ++i) {
      const auto count = static_cast<int64_t>(elements.size());
      std::optional<int64_t> place = (*places)[i].AsConstant();
      if (place && *place < 0) *place += count;
      if (!place || *place < 0 || *place >= count) return std::nullopt;
      elements[static_cast<size_t>(*place)] = (*updates)[i];
    }
    return elements;
  }

  // The elements of a view or gather, if each is known to be a copy of an operand's element.
  Elements Moved(const Node& node, const Dims& dims) {
    return ForEachElement(dims, [&](const Dims& index) -> std::optional<Expr> {
      const auto sources = ElementSources(
          node, 0, Exprs(index.begin(), index.end()), ranges_,
          [&](int operand, ArrayRef<Expr> position, const Expr& extent) {
            std::optional<Expr> row = ElementAt(node.operand(operand), position);
            const std::optional<int64_t> number = row ? row->AsConstant() : std::nullopt;
            if (!number) return std::optional<Expr>();
            return std::optional<Expr>(*number < 0 ? extent + *number : Expr(*number));
          });
      if (!sources || sources->size() != 1 || (*sources)[0].operand < 0) return std::nullopt;
      return ElementAt(node.operand((*sources)[0].operand), (*sources)[0].index);
    });
  }

  // The element at `index`, if the index is constant and in range.
  std::optional<Expr> ElementAt(const Value* value, ArrayRef<Expr> index) {
    const Elements& elements = Of(value);
    if (!elements) return std::nullopt;
    const Dims dims = *StaticShape(value->type.shape);
    Dims at;
    for (size_t i = 0; i < dims.size(); ++i) {
      const std::optional<int64_t> place = index[i].AsConstant();
      if (!place || *place < 0 || *place >= dims[i]) return std::nullopt;
      at.push_back(*place);
    }
    return (*elements)[Position(at, dims)];
  }

  // The results of `element` for every index; nullopt if one of them is nullopt.
  template <class Element>
  static Elements ForEachElement(const Dims& dims, Element element) {
    Exprs elements;
    bool known = true;
    ForEachPlace(dims, [&](const Dims& index) {
      if (!known) return;
      std::optional<Expr> found = element(index);
      known = found.has_value();
      if (known) elements.push_back(*std::move(found));
    });
    if (!known) return std::nullopt;
    return elements;
  }

  // Whether an op's rule for integers holds for floats that are whole numbers, too.
  static bool KeepsWholeNumbers(OpKind kind) {
    switch (kind) {
      case OpKind::kAdd:
      case OpKind::kSub:
      case OpKind::kMul:
      case OpKind::kNeg:
      case OpKind::kMin:
      case OpKind::kMax:
      case OpKind::kCast:
        return true;
      default:
        return false;
    }
  }

  // Whether an element fits into the dtype, since wrapping is not modeled. Symbolic i32 and i64
  // elements are sizes and are assumed to fit; other dtypes need a proof.
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
    if (IsFloat(dtype)) return number >= -MostExact(dtype) && number <= MostExact(dtype);
    const int bits = 8 * DtypeBytes(dtype);
    const int64_t low = IsUnsigned(dtype) ? 0 : -(int64_t{1} << (bits - 1));
    const int64_t high = (int64_t{1} << (IsUnsigned(dtype) ? bits : bits - 1)) - 1;
    return number >= low && number <= high;
  }

  // The float dtype represents every integer up to this one.
  static int64_t MostExact(Dtype dtype) {
    const int digits = dtype == Dtype::kF64   ? 53
                       : dtype == Dtype::kF32 ? 24
                       : dtype == Dtype::kF16 ? 11
                                              : 8;
    return int64_t{1} << digits;
  }

  static Elements Literals(const TensorData& data, int64_t count) {
    if (data.element_count() != count || (count > 0 && data.bytes() == nullptr)) {
      return std::nullopt;  // the payload was not loaded
    }
    Exprs elements;
    for (int64_t i = 0; i < count; ++i) {
      if (IsFloat(data.dtype())) {
        const double number = data.GetDouble(i);
        // -0 is no integer: 1 / -0 is not 1 / 0.
        if (number != std::trunc(number) || std::abs(number) > 0x1p53 ||
            (number == 0 && std::signbit(number))) {
          return std::nullopt;
        }
        elements.emplace_back(static_cast<int64_t>(number));
      } else {
        elements.emplace_back(data.GetInt(i));
      }
    }
    return elements;
  }

  const Ranges& ranges_;
  ConstantLookup constant_of_;
  int depth_ = 0;  // recursion depth
  const Elements unknown_;
  std::unordered_map<const Value*, Elements> memo_;  // looked up, never iterated
};

}  // namespace

std::optional<Exprs> SymbolicContents(const Value* value, const Ranges& ranges,
                                      ConstantLookup constant_of) {
  return Evaluator(ranges, constant_of).Of(value);
}

}  // namespace fusec
