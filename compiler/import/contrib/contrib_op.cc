#include "compiler/import/contrib/contrib_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/check.h"

namespace fusec {

const Value* ContribNode::Find(std::string_view input) const {
  const auto& names = signature_.input();
  const auto found = std::find(names.begin(), names.end(), input);
  FUSEC_CHECK(found != names.end(), std::string(input) + " is no input of " + signature_.name());
  const int i = static_cast<int>(found - names.begin());
  return i < context_.input_count() ? context_.input(i) : nullptr;
}

const TensorType& ContribNode::Type(std::string_view input) const {
  const Value* value = Find(input);
  FUSEC_CHECK(value != nullptr, std::string(input) + " is absent");
  return value->type;
}

Result<Expr> ContribNode::Dim(std::string_view input, int axis) const {
  const TensorType& type = Type(input);
  const int from_start = axis < 0 ? axis + type.rank() : axis;
  if (from_start >= 0 && from_start < type.rank()) return type.shape[from_start];
  return Fail(fmt::format("{} is {}, which has no axis {}", input, type.ToString(), axis));
}

Result<int64_t> ContribNode::FixedDim(std::string_view input, int axis) const {
  FUSEC_ASSIGN(const Expr dim, Dim(input, axis));
  if (const std::optional<int64_t> size = dim.AsConstant()) return *size;
  return Fail(fmt::format("{} is {}, expected a fixed size of axis {}", input,
                          Type(input).ToString(), axis));
}

bool ContribNode::Uses(std::string_view output) const {
  const auto& names = signature_.output();
  const auto found = std::find(names.begin(), names.end(), output);
  const int i = static_cast<int>(found - names.begin());
  return i < context_.output_count() && context_.output_used(i);
}

Result<void> ContribNode::Require(std::initializer_list<std::string_view> inputs) const {
  for (const std::string_view input : inputs) {
    if (!Has(input)) return Fail(fmt::format("input {} is missing", input));
  }
  return {};
}

Result<void> ContribNode::Refuse(std::initializer_list<std::string_view> inputs,
                                 std::initializer_list<const char*> attributes) const {
  for (const std::string_view input : inputs) {
    if (Has(input)) return Fail(fmt::format("input {} is not supported", input));
  }
  for (const char* attribute : attributes) {
    if (const int64_t value = Int(attribute); value != 0)
      return Fail(fmt::format("{} is {}, which is not supported", attribute, value));
  }
  return {};
}

std::string FloatText(double value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? "0" : fmt::format("{:.9g}", value);
}

std::string Statements::Let(const std::string& expression, const std::string& name) {
  std::string result = name.empty() ? fmt::format("t{}", names_++) : name;
  Set(result, expression);
  return result;
}

std::string Statements::Call(std::string_view op,
                             std::initializer_list<std::string_view> operands) {
  return Let(fmt::format("{}({})", op, fmt::join(operands, ", ")));
}

void Statements::Set(const std::string& output, const std::string& expression) {
  text_ += fmt::format("{} = {}\n", output, expression);
}

std::string Statements::Ints(ArrayRef<int64_t> values) {
  return Let(fmt::format("Constant<value = int64[{}] {{{}}}>()", values.size(),
                         fmt::join(values.begin(), values.end(), ", ")));
}

std::string Statements::Int(int64_t value) {
  return Let(fmt::format("Constant<value = int64 {{{}}}>()", value));
}

std::string Statements::Number(double value, const std::string& like) {
  std::string number;
  if (std::isfinite(value)) {
    number = Let(fmt::format("Constant<value = float {{{}}}>()", FloatText(value)));
  } else {  // ONNX's text has no spelling for it
    const double dividend = std::isnan(value) ? 0 : value > 0 ? 1 : -1;
    const std::string zero = Let("Constant<value = float {0}>()");
    number = Of("Div", Let(fmt::format("Constant<value = float {{{}}}>()", dividend)), zero);
  }
  return Of("CastLike", number, like);
}

std::string Statements::Plus(const std::string& x, const ContribNode& node, const char* addend) {
  return node.Has(addend) ? Of("Add", x, addend) : x;
}

std::string Statements::Transposed(const std::string& x, int rank) {
  if (rank < 2) return x;
  std::vector<int64_t> perm(rank);
  for (int i = 0; i < rank; ++i) perm[i] = i;
  std::swap(perm[rank - 2], perm[rank - 1]);
  return Let(fmt::format("Transpose<perm = [{}]>({})", fmt::join(perm, ", "), x));
}

std::string Statements::Dim(const std::string& x, int axis) {
  return Of("Gather", Of("Shape", x), Int(axis));
}

std::string Statements::Iota(const std::string& count) {
  const std::string zero = Int(0), one = Int(1);
  return Of("Range", zero, count, one);
}

std::vector<std::string> Statements::Split(const std::string& x, int axis,
                                           ArrayRef<int64_t> sizes) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < sizes.size(); ++i) parts.push_back(fmt::format("t{}", names_++));
  const std::string lengths = Ints(sizes);
  Set(fmt::format("{}", fmt::join(parts, ", ")),
      fmt::format("Split<axis = {}>({}, {})", axis, x, lengths));
  return parts;
}

}  // namespace fusec
