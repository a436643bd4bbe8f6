#include "compiler/import/cell_reader.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/ir/recurrence.h"

namespace fusec {

namespace {

using Kind = CellFactor::Kind;

// The columns of a value, if their number is known.
std::optional<int64_t> WidthOf(const Value& value) {
  return value.type.rank() == 0 ? std::optional<int64_t>(1) : value.type.shape.back().AsConstant();
}

// Whether a view leaves the columns of its operand as they are.
bool KeepsColumns(const Node& view) {
  const Value* from = view.operand(0);
  const Value* to = view.result();
  return from->type.rank() > 0 && to->type.rank() > 0 &&
         from->type.shape.back() == to->type.shape.back() &&
         from->type.ElementCount() == to->type.ElementCount();
}

}  // namespace

CellReader::CellReader(StepValues& values, ImportState& inner, CellAlgebra& algebra, int64_t units,
                       DenseMap<const Value*, int> state_of, int states)
    : values_(values),
      inner_(inner),
      algebra_(algebra),
      units_(units),
      state_of_(std::move(state_of)) {
  for (int i = 0; i < states; ++i) algebra_.NumberOf({.kind = Kind::kState, .block = i});
}

CellReader::Blocks CellReader::Read(Value* value) {
  if (const auto found = known_.find(value); found != known_.end()) return found->second;
  Blocks blocks = Compute(value);
  return known_[value] = std::move(blocks);
}

CellReader::Blocks CellReader::Compute(Value* value) {
  if (const auto state = state_of_.find(value); state != state_of_.end())
    return {algebra_.Variable({.kind = Kind::kState, .block = state->second})};
  const auto width = WidthOf(*value);
  if (!width || (*width != 1 && *width % units_ != 0)) return {};
  const Node* node = value->producer;
  if (!values_.DependsOnState(value)) {
    const auto number = KnownTensor(value, inner_);
    if (number && number->element_count() == 1)
      return {Constant(IsFloat(number->dtype()) ? number->GetDouble(0)
                                                : static_cast<double>(number->GetInt(0)))};
    // Parts of a tensor are read as its blocks, so that the gates have one tensor in common.
    const bool is_part = node && !values_.IsComputed(value) &&
                         (node->kind == OpKind::kSlice || node->kind == OpKind::kConcat);
    Blocks parts = is_part && IsFloat(value->type.dtype) ? OfNode(*node) : Blocks();
    if (!parts.empty()) return parts;
    const bool is_read = node && (IsWidened(*node) || Chooses(*node) || IsComplement(*node));
    if (!is_read || values_.IsComputed(value)) return Leaf(value);
  }
  return node == nullptr ? Blocks() : OfNode(*node);
}

// Whether a node that depends on no state makes numbers of a mask, negates it, or repeats its only
// column. Such nodes are read, so that a mask has one atom in all its forms.
bool CellReader::IsWidened(const Node& node) {
  const Value* from = node.operand(0);
  if (from == nullptr || from->type.dtype != Dtype::kBool || !values_.DependsOnStep(from))
    return false;
  if (node.kind == OpKind::kExpand || node.kind == OpKind::kTile)
    return from->type.rank() > 0 && from->type.shape.back().IsConstant(1);
  return node.kind == OpKind::kNot || node.kind == OpKind::kIdentity ||
         (node.kind == OpKind::kCast && IsFloat(node.result()->type.dtype));
}

// Whether a node that depends on no state multiplies by a mask or chooses by it.
bool CellReader::Chooses(const Node& node) {
  if (node.kind == OpKind::kWhere) return true;
  if (node.kind == OpKind::kAdd) {
    return std::any_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
      return operand->producer && Chooses(*operand->producer);
    });
  }
  return node.kind == OpKind::kMul &&
         std::any_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
           return operand->producer && IsWidened(*operand->producer);
         });
}

// Whether a node that depends on no state subtracts a column that all units share from a number, so
// that a weight w and 1 - w have one atom.
bool CellReader::IsComplement(const Node& node) {
  if (node.kind != OpKind::kSub || WidthOf(*node.result()) != 1 || units_ == 1) return false;
  const auto number = KnownTensor(node.operand(0), inner_);
  return number && number->element_count() == 1 && values_.DependsOnStep(node.operand(1));
}

CellReader::Blocks CellReader::Leaf(Value* value) {
  const bool on_step = values_.DependsOnStep(value);
  const int64_t width = *WidthOf(*value);
  if (on_step && value->type.rank() != 2) return {};
  const bool is_mask = value->type.dtype == Dtype::kBool;
  if (is_mask ? !on_step || width != 1 : !IsFloat(value->type.dtype)) return {};
  if (!on_step && IsZeroState(values_.Invariant(value))) return {Constant(0)};
  const Kind kind = is_mask ? Kind::kMask : on_step ? Kind::kStep : Kind::kInvariant;
  if (width == 1 && units_ != 1)
    return {algebra_.Variable({.kind = kind, .value = value, .block = -1})};
  Blocks blocks;
  for (int64_t i = 0; i < width / units_; ++i)
    blocks.push_back(algebra_.Variable({.kind = kind, .value = value, .block = is_mask ? -1 : i}));
  return blocks;
}

CellReader::Blocks CellReader::OfNode(const Node& node) {
  switch (node.kind) {
    case OpKind::kAdd:
    case OpKind::kSum:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kNeg:
    case OpKind::kNot:
    case OpKind::kAnd:
    case OpKind::kWhere:
      return Arithmetic(node);
    case OpKind::kCast: {
      const Dtype from = node.operand(0)->type.dtype, to = node.result()->type.dtype;
      return from == to || (from == Dtype::kBool && IsFloat(to)) ? Read(node.operand(0)) : Blocks();
    }
    case OpKind::kIdentity:
      return Read(node.operand(0));
    case OpKind::kReshape:
      return KeepsColumns(node) ? Read(node.operand(0)) : Blocks();
    case OpKind::kExpand:
    case OpKind::kTile:
      return IsWidened(node) ? Read(node.operand(0)) : Blocks();
    case OpKind::kSlice:
      return SliceOf(node);
    case OpKind::kConcat:
      return ConcatOf(node);
    case OpKind::kMatMul:
    case OpKind::kGemm:
      return ProductOf(node);
    case OpKind::kClip:
      return Clipped(node);
    default:
      return Activated(node);
  }
}

CellReader::Blocks CellReader::Combined(
    const Node& node,
    const std::function<std::optional<Polynomial>(ArrayRef<Polynomial>)>& combine) {
  std::vector<Blocks> operands;
  size_t count = 1;
  for (Value* operand : node.operands) {
    operands.push_back(operand ? Read(operand) : Blocks());
    if (operands.back().empty()) return {};
    count = std::max(count, operands.back().size());
  }
  Blocks results;
  for (size_t i = 0; i < count; ++i) {
    std::vector<Polynomial> here;
    for (const Blocks& operand : operands) {
      if (operand.size() != 1 && operand.size() != count) return {};
      here.push_back(operand[operand.size() == 1 ? 0 : i]);
    }
    auto result = combine(here);
    if (!result) return {};
    results.push_back(*std::move(result));
  }
  return results;
}

CellReader::Blocks CellReader::Arithmetic(const Node& node) {
  return Combined(node, [&](ArrayRef<Polynomial> x) -> std::optional<Polynomial> {
    const Polynomial one = Constant(1);
    switch (node.kind) {
      case OpKind::kAdd:
      case OpKind::kSum: {
        Polynomial sum;
        for (const Polynomial& addend : x) sum = CellAlgebra::Add(sum, addend);
        return sum;
      }
      case OpKind::kSub:
        return CellAlgebra::Add(x[0], x[1], -1);
      case OpKind::kMul:
      case OpKind::kAnd:
        return algebra_.Multiply(x[0], x[1]);
      case OpKind::kDiv: {
        const auto number = x[1].Number();
        if (!number || *number == 0) return std::nullopt;
        return algebra_.Multiply(x[0], Constant(1 / *number));
      }
      case OpKind::kNeg:
        return CellAlgebra::Add({}, x[0], -1);
      case OpKind::kNot:
        return CellAlgebra::Add(one, x[0], -1);
      default: {  // where
        const auto then = algebra_.Multiply(x[0], x[1]);
        const auto otherwise = algebra_.Multiply(CellAlgebra::Add(one, x[0], -1), x[2]);
        if (!then || !otherwise) return std::nullopt;
        return CellAlgebra::Add(*then, *otherwise);
      }
    }
  });
}

CellReader::Blocks CellReader::SliceOf(const Node& node) {
  const Shape &from = node.operand(0)->type.shape, &to = node.result()->type.shape;
  const Blocks whole = Read(node.operand(0));
  const auto start = node.Get<Exprs>("starts").back().AsConstant();
  const bool others_stay = std::equal(from.begin(), from.end() - 1, to.begin(), to.end() - 1);
  const auto& steps = node.Ints("steps");
  const bool in_order = std::all_of(steps.begin(), steps.end(), [](int64_t by) { return by == 1; });
  if (whole.empty() || !start || !others_stay || !in_order) return {};
  const auto width = to.back().AsConstant();
  if (!width || *start % units_ != 0 || *width % units_ != 0) return {};
  const auto first = static_cast<size_t>(*start / units_),
             count = static_cast<size_t>(*width / units_);
  if (first + count > whole.size()) return {};
  return {whole.begin() + static_cast<int64_t>(first),
          whole.begin() + static_cast<int64_t>(first + count)};
}

CellReader::Blocks CellReader::ConcatOf(const Node& node) {
  if (node.Int("axis") != node.result()->type.rank() - 1) return {};
  Blocks joined;
  for (Value* operand : node.operands) {
    const Blocks part = Read(operand);
    if (part.empty() ||
        !operand->type.shape.back().IsConstant(units_ * static_cast<int64_t>(part.size())))
      return {};
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

CellReader::Blocks CellReader::ProductOf(const Node& node) {
  if (!values_.IsByInvariantMatrix(node)) return {};
  const Value* weights = node.operand(1);
  const bool is_gemm = node.kind == OpKind::kGemm;
  const Blocks left = Read(node.operand(0));
  const auto width = WidthOf(*node.result());
  if (left.size() != 1 || !width || *width % units_ != 0 ||
      !weights->type.shape[node.Int("transpose_b") != 0 ? 1 : 0].IsConstant(units_))
    return {};
  const auto argument = std::make_shared<const Polynomial>(left[0]);
  Blocks addend;
  if (is_gemm && node.operand(2)) {
    addend = Read(node.operand(2));
    if (addend.size() != 1 && addend.size() != static_cast<size_t>(*width / units_)) return {};
  }
  Blocks products;
  for (int64_t i = 0; i < *width / units_; ++i) {
    products.push_back(algebra_.Variable(
        {.kind = Kind::kProduct, .node = &node, .block = i, .argument = argument}));
    if (!addend.empty())
      products.back() = CellAlgebra::Add(products.back(), addend[addend.size() == 1 ? 0 : i]);
  }
  return products;
}

CellReader::Blocks CellReader::Activated(const Node& node) {
  const CellActivation* function = FindCellActivation(GetOpDef(node.kind).onnx);
  if (function == nullptr || node.operands.size() != 1) return {};
  CellFactor factor{.kind = Kind::kActivation, .activation = function->name};
  if (function->has_alpha) factor.alpha = node.Float("alpha");
  if (function->has_beta) factor.beta = node.Float("beta");
  const Blocks arguments = Read(node.operand(0));
  Blocks results;
  for (const Polynomial& argument : arguments) results.push_back(Of(factor, argument));
  return results;
}

Polynomial CellReader::Of(CellFactor factor, const Polynomial& argument) {
  factor.argument = std::make_shared<const Polynomial>(argument);
  return algebra_.Variable(factor);
}

// A number clipped to a..b is a + (b - a) HardSigmoid(x), with the line (x - a) / (b - a).
CellReader::Blocks CellReader::Clipped(const Node& node) {
  if (node.operand(1) == nullptr || node.operand(2) == nullptr) return {};
  const Blocks from = Read(node.operand(1)), to = Read(node.operand(2));
  const auto low = from.size() == 1 ? from[0].Number() : std::nullopt;
  const auto high = to.size() == 1 ? to[0].Number() : std::nullopt;
  if (!low || !high || !(*low < *high)) return {};
  const double size = *high - *low;
  const CellFactor factor{.kind = Kind::kActivation,
                          .activation = "HardSigmoid",
                          .alpha = 1 / size,
                          .beta = -*low / size};
  Blocks results;
  for (const Polynomial& argument : Read(node.operand(0))) {
    const auto scaled = algebra_.Multiply(Constant(size), Of(factor, argument));
    results.push_back(CellAlgebra::Add(Constant(*low), *scaled));
  }
  return results;
}

}  // namespace fusec
