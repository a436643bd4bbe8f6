#include "compiler/kernel/size_names.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compiler/ir/c_text.h"

namespace fusec {

void NameStrides(KernelBuilder& builder, const std::string& buffer, const Shape& shape) {
  Expr stride = 1;
  const int rank = static_cast<int>(shape.size());
  for (int axis = rank - 1; axis > 0; --axis) {
    stride = stride * shape[axis];
    if (stride.terms().size() != 1) return;
    const Expr::Term& term = stride.terms()[0];
    const bool last = axis == rank - 1;
    std::string name = last ? "_columns" : "_stride_" + std::to_string(axis - 1);
    std::string comment =
        last ? "last axis" : "elements per step of axis " + std::to_string(axis - 1);
    for (const AtomRef& atom : term.atoms) {
      if (atom->kind != Atom::Kind::kSymbol) return;
      name += "_per_" + atom->name;
      comment += ", for each " + atom->name + ",";
    }
    comment += " of \"" + buffer + "\"";
    builder.expressions().NameConstant(term.coefficient, buffer + name, comment);
    if (const KernelBuilder::Lanes* lanes = builder.lanes())
      builder.expressions().SuggestName(term.coefficient * lanes->count,
                                        buffer + name + "_of_lanes",
                                        lanes->count_name + " times the " + comment);
  }
}

void NameCount(KernelBuilder& builder, const Expr& count, const std::string& hint,
               const std::string& comment) {
  if (count.terms().size() != 1) return;
  const Expr::Term& term = count.terms()[0];
  std::string per, each;
  for (const AtomRef& atom : term.atoms) {
    if (atom->kind != Atom::Kind::kSymbol) return;
    per += (per.empty() ? "_per_" : "_and_") + atom->name;
    each += (each.empty() ? ", for each " : " and ") + atom->name;
  }
  builder.expressions().NameConstant(term.coefficient, hint + per, comment + each);
}

void NameOffsets(KernelBuilder& builder, const std::string& tensor, const Expr& position) {
  if (position.terms().size() < 2) return;
  const std::string comment = "between an element and what is read of \"" + tensor + "\"";
  const auto& dims = builder.program().symbols;
  for (const Expr::Term& term : position.terms()) {
    std::string hint = tensor + "_offset";
    const bool is_offset =
        std::all_of(term.atoms.begin(), term.atoms.end(), [&](const AtomRef& atom) {
          hint += "_per_" + atom->text;
          return std::any_of(dims.begin(), dims.end(),
                             [&](const DimSymbol& dim) { return dim.name == atom->text; });
        });
    if (!is_offset) continue;
    if (term.atoms.empty())
      builder.expressions().NameOffset(std::abs(term.coefficient), hint, comment);
    else
      builder.expressions().NameConstant(std::abs(term.coefficient), hint, comment);
  }
}

void NamePlace(KernelBuilder& builder, const Value* result, const std::vector<Expr>& offset,
               const std::string& part) {
  const auto place = Linearize(offset, result->type.shape, builder.ranges()).AsConstant();
  if (!place) return;
  builder.expressions().NameOffset(
      *place, part + "_place",
      "where \"" + part + "\" begins in \"" + FriendlyName(result->name) + "\"");
}

std::string NameNumber(KernelBuilder& builder, const Value* constant, int64_t at,
                       const std::string& literal) {
  const TensorData& data = constant->producer->constant;
  const double number = data.GetDouble(at);
  const bool is_small = std::abs(number) <= 3 && number == std::floor(number);
  if (is_small || !std::isfinite(number)) return literal;  // those are no constant expressions
  std::string hint = FriendlyName(constant->name), comment = "\"" + constant->name + "\"";
  if (data.element_count() > 1) {
    hint += "_" + std::to_string(at);
    comment = "element " + std::to_string(at) + " of " + comment;
  }
  return builder.expressions().TypedConstant(CTypeName(constant->type.dtype), hint, literal,
                                             comment);
}

void SuggestSizes(KernelBuilder& builder, const Value& value) {
  const Shape& shape = value.type.shape;
  const std::string name = FriendlyName(value.name);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const std::string number = std::to_string(axis);
    const Expr stride = Product(Shape(shape.begin() + static_cast<int64_t>(axis) + 1, shape.end()));
    if (const auto size = shape[axis].AsConstant())
      builder.expressions().SuggestName(*size, name + "_axis_" + number + "_size",
                                        "of axis " + number + " of \"" + name + "\"");
    if (const auto step = stride.AsConstant())
      builder.expressions().SuggestName(
          *step, name + "_stride_" + number,
          "elements per step of axis " + number + " of \"" + name + "\"");
  }
}

}  // namespace fusec
