#include "compiler/ops/pointwise.h"

namespace fusec {
namespace {

std::string NamesOf(DtypeSet dtypes) {
  std::string names;
  for (int i = 0; i < kDtypeCount; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    if ((dtypes & BitOf(dtype)) == 0) continue;
    if (!names.empty()) names += ", ";
    names += DtypeName(dtype);
  }
  return names;
}

// Parenthesizes a negative literal: after a minus sign or another operator it would be misread or
// fail to parse.
std::string Protected(const std::string& scalar) {
  return scalar[0] == '-' ? "(" + scalar + ")" : scalar;
}

std::string Placeholder(const std::string& name, ArrayRef<Scalar> operands,
                        const FormulaContext& context) {
  const Dtype dtype = context.dtype;
  if (name == "f") return dtype == Dtype::kF64 ? "" : "f";
  if (name == "zero") return CLiteral(0, dtype);
  if (name == "one") return CLiteral(1, dtype);
  if (name == "type") return CTypeName(dtype);
  if (name[0] >= '0' && name[0] <= '9') return Protected(operands[name[0] - '0'].text());
  return Protected(CLiteral(context.node.Float(name), IsFloat(dtype) ? dtype : Dtype::kF64));
}

}  // namespace

std::string FillFormula(const std::string& formula, ArrayRef<Scalar> operands,
                        const FormulaContext& context) {
  std::string text;
  for (size_t i = 0; i < formula.size(); ++i) {
    if (formula[i] != '{') {
      text += formula[i];
      continue;
    }
    const size_t end = formula.find('}', i);
    text += Placeholder(formula.substr(i + 1, end - i - 1), operands, context);
    i = end;
  }
  return text;
}

ValueList Inputs(const ImportContext& context) {
  ValueList inputs;
  for (int i = 0; i < context.input_count(); ++i) inputs.push_back(context.input(i));
  return inputs;
}

Result<void> ImportPointwise(ImportContext& context, OpKind kind,
                             ArrayRef<AttributeDefault> defaults) {
  Attributes attributes;
  for (const AttributeDefault& attribute : defaults) {
    attributes[attribute.name] = context.Float(attribute.name, attribute.value);
  }
  return context.AddNode(kind, Inputs(context), std::move(attributes));
}

Result<void> CheckDtype(const InferContext& context, int operand, DtypeSet dtypes) {
  const Dtype dtype = context.operand(operand).dtype;
  if ((dtypes & BitOf(dtype)) != 0) return {};
  return ModelError("operand " + std::to_string(operand) + " is " + std::string(DtypeName(dtype)) +
                    ", expected one of " + NamesOf(dtypes));
}

Result<void> CheckSameDtype(const InferContext& context, int operand, int other) {
  const Dtype dtype = context.operand(operand).dtype, other_dtype = context.operand(other).dtype;
  if (dtype == other_dtype) return {};
  return ModelError("operand " + std::to_string(operand) + " is " + std::string(DtypeName(dtype)) +
                    ", but operand " + std::to_string(other) + " is " +
                    std::string(DtypeName(other_dtype)) + ", expected the same dtype");
}

InferResult InferPointwise(const InferContext& context, DtypeSet dtypes, bool gives_bool) {
  FUSEC_TRY(CheckDtype(context, 0, dtypes));
  const Dtype dtype = context.operand(0).dtype;
  std::vector<Shape> shapes;
  for (int i = 0; i < static_cast<int>(context.operands.size()); ++i) {
    FUSEC_TRY(CheckSameDtype(context, 0, i));
    shapes.push_back(context.operand(i).shape);
  }
  FUSEC_ASSIGN(Shape shape, BroadcastShapes(shapes));
  return std::vector<TensorType>{{gives_bool ? Dtype::kBool : dtype, std::move(shape)}};
}

Scalar LoadBroadcast(LowerContext& context, int operand) {
  const Shape& shape = context.node().operand(operand)->type.shape;
  return context.Load(operand, BroadcastIndex(context.index(), shape));
}

Scalar LowerPointwise(LowerContext& context, std::string (*formula)(FormulaContext&),
                      bool gives_bool) {
  const Node& node = context.node();
  const Dtype dtype = node.operand(0)->type.dtype;
  const Dtype result = gives_bool ? Dtype::kBool : dtype;
  FormulaContext formula_context(context, dtype);
  const std::string text = formula(formula_context);
  const Scalar first = LoadBroadcast(context, 0);
  if (text == "{0}") return {first.value, result};
  if (text.find("{1}") == std::string::npos) {
    return context.Let(FillFormula(text, {first}, formula_context), result);
  }
  Scalar value = first;
  for (int i = 1; i < static_cast<int>(node.operands.size()); ++i) {
    const Scalar next = LoadBroadcast(context, i);
    const std::string one = CLiteral(1, dtype);
    if (text == "{0} * {1}" && (value.text() == one || next.text() == one)) {
      value = {value.text() == one ? next.value : value.value, result};
      continue;
    }
    value = context.Let(FillFormula(text, {value, next}, formula_context), result);
  }
  return value;
}

std::optional<Expr> SymbolicEqual(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (SimplifySum(a - b, ranges).IsConstant(0)) return Expr(1);
  if (ranges.ProvenLess(a, b) || ranges.ProvenLess(b, a)) return Expr(0);
  return std::nullopt;
}

std::optional<Expr> SymbolicLess(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (ranges.ProvenLess(a, b)) return Expr(1);
  if (ranges.ProvenNonNegative(a - b)) return Expr(0);
  return std::nullopt;
}

std::optional<Expr> SymbolicNot(const std::optional<Expr>& truth) {
  if (!truth) return std::nullopt;
  return Expr(1) - *truth;
}

void ForEachRun(const ReferenceContext& context, function_ref<void(const BroadcastRun&)> visit) {
  if (context.output().element_count() == 0) return;
  std::vector<int64_t> dims = context.output().dims;
  const size_t operands = context.node.operands.size();
  std::vector<std::vector<int64_t>> strides;
  for (size_t i = 0; i < operands; ++i) {
    const bool present = context.has_input(static_cast<int>(i));
    strides.push_back(BroadcastStrides(
        present ? context.input(static_cast<int>(i)).dims : std::vector<int64_t>{}, dims.size()));
  }
  // Two axes are one if every operand steps through them as through one.
  for (size_t axis = dims.size(); axis-- > 1;) {
    const bool are_one = std::all_of(strides.begin(), strides.end(), [&](const auto& own) {
      return own[axis - 1] == own[axis] * dims[axis];
    });
    if (!are_one) continue;
    dims[axis - 1] *= dims[axis];
    dims.erase(dims.begin() + static_cast<int64_t>(axis));
    for (auto& own : strides) own.erase(own.begin() + static_cast<int64_t>(axis) - 1);
  }
  std::vector<int64_t> positions(operands, 0), steps(operands, 0);
  const int64_t last = dims.empty() ? 1 : dims.back();
  for (size_t i = 0; i < operands && !dims.empty(); ++i) steps[i] = strides[i].back();
  int64_t result = 0;
  if (!dims.empty()) dims.pop_back();
  ForEachIndex(dims, [&](ArrayRef<int64_t> index) {
    for (size_t i = 0; i < operands; ++i) {
      positions[i] = 0;
      for (size_t axis = 0; axis < index.size(); ++axis)
        positions[i] += index[axis] * strides[i][axis];
    }
    visit({result, last, positions, steps});
    result += last;
  });
}

void ForEachBroadcast(const ReferenceContext& context,
                      function_ref<void(int64_t, ArrayRef<int64_t>)> visit) {
  ForEachRun(context, [&](const BroadcastRun& run) {
    std::vector<int64_t> positions(run.positions);
    for (int64_t i = 0; i < run.count; ++i) {
      visit(run.result + i, positions);
      for (size_t k = 0; k < positions.size(); ++k) positions[k] += run.steps[k];
    }
  });
}

}  // namespace fusec
