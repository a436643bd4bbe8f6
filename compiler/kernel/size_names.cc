#include "compiler/kernel/size_names.h"

#include <cmath>

#include "compiler/ir/c_text.h"

namespace fusec {

namespace {

// The number in a product of one number and symbols; 0 for other expressions.
int64_t NumberIn(const Expr& size) {
  if (size.terms().size() != 1) return 0;
  for (const AtomRef& atom : size.terms()[0].atoms) {
    if (atom->kind != Atom::Kind::kSymbol) return 0;
  }
  return size.terms()[0].coefficient;
}

// ", for each batch" for batch * 16.
std::string ForEach(const Expr& size) {
  std::string each;
  for (const AtomRef& atom : size.terms()[0].atoms)
    each += (each.empty() ? ", for each " : " and ") + WordOfSymbol(atom->name);
  return each;
}

void Add(std::vector<SizeName>& sizes, SizeName size) {
  if (size.value > 1) sizes.push_back(std::move(size));
}

std::string Quoted(const std::string& name) { return "\"" + name + "\""; }

// The stride of `axis` of a row-major tensor, in elements.
SizeName StrideOf(const std::string& name, ShapeRef shape, size_t axis) {
  const Expr stride = Product(Shape(shape.begin() + static_cast<int64_t>(axis) + 1, shape.end()));
  const int64_t number = NumberIn(stride);
  const std::string which = std::to_string(axis);
  if (number == 0) return {};
  return {number, name + "_stride_" + which,
          "elements per step of axis " + which + " of " + Quoted(name) + ForEach(stride)};
}

}  // namespace

std::string NameOf(const KernelBuilder& builder, const Value* value) {
  return builder.ReservedName(value).value_or(ModelName(value->name));
}

SizeName ExtentOf(const std::string& name, ShapeRef shape, size_t axis) {
  const int64_t number = shape[axis].AsConstant().value_or(0);
  if (shape.size() == 1) return {number, name + "_length", "elements of " + Quoted(name)};
  if (axis + 1 == shape.size()) return {number, name + "_columns", "last axis of " + Quoted(name)};
  if (axis == 0)
    return {number, name + "_rows",
            (shape.size() == 2 ? "rows of " : "first axis of ") + Quoted(name)};
  const std::string which = std::to_string(axis);
  return {number, name + "_axis_" + which, "extent of axis " + which + " of " + Quoted(name)};
}

SizeName ElementsOf(const std::string& name, ShapeRef shape, size_t first) {
  if (first + 1 == shape.size()) return ExtentOf(name, shape, first);
  const Shape inner(shape.begin() + static_cast<int64_t>(first), shape.end());
  return {NumberIn(Product(inner)), name + "_elements",
          (first > 0 ? "elements of one row of " : "elements of ") + Quoted(name)};
}

std::vector<SizeName> SizesOf(const std::string& name, ShapeRef shape, size_t first) {
  std::vector<SizeName> sizes;
  if (shape.size() <= first) return sizes;
  const size_t last = shape.size() - 1;
  Add(sizes, ExtentOf(name, shape, last));
  for (size_t axis = last; axis-- > first;) Add(sizes, StrideOf(name, shape, axis));
  if (first > 0) Add(sizes, ElementsOf(name, shape, first));
  for (size_t axis = last; axis-- > first;) Add(sizes, ExtentOf(name, shape, axis));
  return sizes;
}

std::vector<SizeName> VectorsOf(const std::string& name, ShapeRef shape, size_t first,
                                int64_t lanes, const CExpr& lanes_name) {
  std::vector<SizeName> sizes;
  const std::string each = lanes_name.ToString() + " elements each, ";
  int64_t count = 1;
  for (size_t axis = shape.size(); axis-- > first;) {
    count *= shape[axis].AsConstant().value_or(0) / (axis + 1 == shape.size() ? lanes : 1);
    const std::string outer = std::to_string(axis - 1);
    if (axis == first)
      Add(sizes,
          {count, name + "_vectors", each + (first > 0 ? "of one row of " : "of ") + Quoted(name)});
    else if (axis + 1 == shape.size())
      Add(sizes, {count, name + "_column_vectors", each + "of the last axis of " + Quoted(name)});
    else
      Add(sizes, {count, name + "_stride_" + outer + "_vectors",
                  each + "per step of axis " + outer + " of " + Quoted(name)});
  }
  for (size_t axis = shape.size() - 1; axis-- > first;) Add(sizes, ExtentOf(name, shape, axis));
  return sizes;
}

SizeNames PlaceIn(const std::string& name, ShapeRef shape) {
  return {name, "", true, SizesOf(name, shape), {}, {}};
}

SizeNames PlaceIn(const std::string& name, ShapeRef shape, ArrayRef<const Value*> views) {
  SizeNames names = PlaceIn(name, shape);
  for (const Value* view : views) {
    for (SizeName& size : SizesOf(ModelName(view->name), view->type.shape)) {
      size.comment += ", as which " + Quoted(name) + " is read";
      names.sizes.push_back(std::move(size));
    }
  }
  return names;
}

SizeNames WithPath(SizeNames names, ArrayRef<const Value*> path) {
  for (const Value* value : path) {
    for (SizeName& size : SizesOf(ModelName(value->name), value->type.shape))
      names.divisors.push_back(std::move(size));
  }
  return names;
}

SizeNames CountOf(const std::string& subject, const std::string& phrase,
                  std::vector<SizeName> sizes) {
  std::erase_if(sizes, [](const SizeName& size) { return size.value <= 1; });
  return {subject, phrase, false, std::move(sizes), {}, {}};
}

SizeNames Only(const SizeName& size) { return {size.hint, size.comment, false, {}, {}, {}}; }

SizeNames CoordinatesOf(const std::string& prefix, ShapeRef dims) {
  SizeNames names{prefix, "of " + prefix, false, {}, {}, {}};
  Expr stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const std::string name = prefix + "_" + std::to_string(i);
    if (i + 2 < dims.size() && NumberIn(stride) > 0)
      Add(names.sizes, {NumberIn(stride), name + "_step",
                        "of " + prefix + " from one " + name + " to the next" + ForEach(stride)});
    Add(names.sizes, {dims[i].AsConstant().value_or(0), name + "_count", "extent of " + name});
    stride = stride * dims[i];
  }
  return names;
}

std::vector<SizeName> PlaceOfPart(const KernelBuilder& builder, const Value* result,
                                  ArrayRef<Expr> offset, const std::string& part) {
  Expr place = 0;
  for (size_t axis = 0; axis < offset.size(); ++axis)
    place = place * result->type.shape[axis] + offset[axis];
  const auto number = place.AsConstant();
  if (!number || *number <= 1) return {};
  return {{*number, part + "_place",
           "where \"" + part + "\" begins in " + Quoted(NameOf(builder, result))}};
}

CExpr NameNumber(KernelBuilder& builder, const Value* constant, int64_t at, const CExpr& literal) {
  const TensorData& data = constant->producer->constant;
  const double number = data.GetDouble(at);
  // The literal of another dtype than i32 tells what it is: 2LL, 3.0f.
  const double greatest = data.dtype() == Dtype::kI32 ? 1 : 3;
  const bool is_small = std::abs(number) <= greatest && number == std::floor(number);
  if (is_small || !std::isfinite(number)) return literal;  // these are not constant expressions
  std::string hint = ModelName(constant->name), comment = "\"" + constant->name + "\"";
  if (data.element_count() > 1) {
    hint += "_" + std::to_string(at);
    comment = "element " + std::to_string(at) + " of " + comment;
  }
  return builder.expressions().TypedConstant(CTypeName(constant->type.dtype), hint, literal,
                                             comment);
}

}  // namespace fusec
