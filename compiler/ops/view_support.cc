#include "compiler/ops/view_support.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/c_text.h"
#include "compiler/ops/fitting_sizes.h"

namespace fusec {

bool HasInput(const ImportContext& context, int i) {
  return i < context.input_count() && context.input(i) != nullptr;
}

Result<Value*> AddView(ImportContext& context, OpKind kind, ValueList operands,
                       Attributes attributes) {
  Result<Node*> node = context.builder().Add(kind, std::move(operands), std::move(attributes));
  if (!node) return tl::unexpected<Error>(node.error());
  return (*node)->result();
}

Result<int64_t> ImportAxis(const ImportContext& context, int64_t axis, int rank) {
  Result<int64_t> normalized = NormalizeAxis(axis, rank);
  if (!normalized) return context.Fail(normalized.error().message);
  return normalized;
}

Result<std::vector<int64_t>> ImportAxes(const ImportContext& context, std::vector<int64_t> axes,
                                        int rank) {
  Result<std::vector<int64_t>> normalized = NormalizeAxes(std::move(axes), rank);
  if (!normalized) return context.Fail(normalized.error().message);
  return normalized;
}

Result<std::optional<std::vector<int64_t>>> AxesFromAttributeOrInput(const ImportContext& context,
                                                                     int i) {
  std::optional<std::vector<int64_t>> axes;
  if (context.Has("axes")) {
    axes = context.Ints("axes");
  } else if (HasInput(context, i)) {
    FUSEC_ASSIGN(axes, context.ConstantInts(i, "axes"));
  }
  return axes;
}

std::string ShapeText(ShapeRef shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].ToString();
  return text + "]";
}

Result<void> CheckAxis(int64_t axis, int rank) {
  if (axis < 0 || axis >= rank) {
    return ModelError(fmt::format("axis is {}, but the rank is {}", axis, rank));
  }
  return {};
}

Result<void> CheckCount(const std::string& what, size_t found, size_t expected) {
  if (found != expected) {
    return ModelError(fmt::format("{} has {} values, expected {}", what, found, expected));
  }
  return {};
}

Result<void> CheckIndexedShape(const TensorType& data, const TensorType& indices, int64_t axis,
                               const Ranges& ranges) {
  const std::string message = fmt::format("the indices {} reach beyond {} on another axis than {}",
                                          indices.ToString(), data.ToString(), axis);
  if (data.rank() != indices.rank()) return ModelError(message);
  for (int i = 0; i < data.rank(); ++i) {
    if (i != axis && !ranges.ProvenNonNegative(data.shape[i] - indices.shape[i]))
      return SizeTooSmall(message, indices.shape[i], data.shape[i]);
  }
  return {};
}

std::optional<IndexUse> IndicesAlongAxis(const Node& node, int operand) {
  if (operand != 1) return std::nullopt;
  return IndexUse{{node.operand(0)->type.shape[node.Int("axis")]}};
}

std::optional<IndexUse> IndicesAreCoordinates(const Node& node, int operand, int64_t first) {
  if (operand != 1) return std::nullopt;
  const auto begin = node.operand(0)->type.shape.begin() + first;
  return IndexUse{{begin, begin + *node.operand(1)->type.shape.back().AsConstant()}};
}

bool SameElementCount(ShapeRef a, ShapeRef b, const Ranges& ranges) {
  Shape rest_of_a;
  Shape rest_of_b(b);
  for (const Expr& dim : a) {
    auto match = std::find(rest_of_b.begin(), rest_of_b.end(), dim);
    if (match == rest_of_b.end() || dim.IsConstant(0)) {  // 0 cannot be canceled
      rest_of_a.push_back(dim);
    } else {
      rest_of_b.erase(match);
    }
  }
  return ProvenEqual(Product(rest_of_a), Product(rest_of_b), ranges);
}

Result<std::vector<int64_t>> EvaluateDims(ArrayRef<Expr> dims,
                                          const std::map<std::string, int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const Expr& dim : dims) {
    FUSEC_ASSIGN(const int64_t value, dim.Evaluate(symbols));
    values.push_back(value);
  }
  return values;
}

void CopyElement(const ReferenceTensor& from, int64_t i, ReferenceTensor& to, int64_t j) {
  CopyElements(from, i, to, j, 1);
}

void CopyElements(const ReferenceTensor& from, int64_t i, ReferenceTensor& to, int64_t j,
                  int64_t count, int64_t stride) {
  if (IsFloat(from.dtype)) {
    for (int64_t k = 0; k < count; ++k) to.reals[j + k] = from.reals[i + k * stride];
  } else {
    for (int64_t k = 0; k < count; ++k) to.ints[j + k] = from.ints[i + k * stride];
  }
}

void MoveElements(ReferenceContext& context, int64_t first, ArrayRef<int64_t> strides) {
  const ReferenceTensor& input = context.input(0);
  ReferenceTensor& output = context.output();
  if (output.element_count() == 0) return;
  const int64_t last = output.dims.empty() ? 1 : output.dims.back();
  const int64_t stride = output.dims.empty() ? 0 : strides.back();
  int64_t to = 0;
  ForEachIndex(ArrayRef(output.dims).drop_back(output.dims.empty() ? 0 : 1),
               [&](ArrayRef<int64_t> index) {
                 int64_t from = first;
                 for (size_t i = 0; i < index.size(); ++i) from += index[i] * strides[i];
                 CopyElements(input, from, output, to, last, stride);
                 to += last;
               });
}

namespace {

Scalar SelectFrom(LowerContext& context, const Expr& position, ArrayRef<Expr> ends, Dtype dtype,
                  function_ref<Scalar(int)> scalar, int first, int last) {
  if (first == last) return scalar(first);
  const bool is_short = last - first < 4;
  const int middle = is_short ? first : first + (last - first) / 2;
  return context.SelectBelow(
      position, ends[middle], dtype,
      [&] { return SelectFrom(context, position, ends, dtype, scalar, first, middle); },
      [&] { return SelectFrom(context, position, ends, dtype, scalar, middle + 1, last); });
}

}  // namespace

Scalar ZeroOf(Dtype dtype) { return {Literal(0, dtype), dtype}; }
Scalar OneOf(Dtype dtype) { return {Literal(1, dtype), dtype}; }

Scalar SelectAmong(LowerContext& context, const Expr& position, ArrayRef<Expr> ends, Dtype dtype,
                   function_ref<Scalar(int)> scalar) {
  return SelectFrom(context, position, ends, dtype, scalar, 0, static_cast<int>(ends.size()) - 1);
}

}  // namespace fusec
