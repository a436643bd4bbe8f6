#include "compiler/plan/part_names.h"

#include <algorithm>

namespace fusec {

std::string PartNames::NameOf(const Value* part) const {
  const auto& outputs = region_.body->outputs;
  const auto output = std::find(outputs.begin(), outputs.end(), part);
  if (output == outputs.end()) return ModelName(part->name);
  return fusec::NameOf(builder_, region_.result(static_cast<int>(output - outputs.begin())));
}

SizeName PartNames::Extent(const Value* part, size_t axis) const {
  return ExtentOf(NameOf(part), part->type.shape, axis);
}

SizeNames PartNames::Elements(const Value* result) const {
  const Shape& shape = result->type.shape;
  std::vector<SizeName> columns;
  if (shape.size() > 1) columns.push_back(Extent(result, shape.size() - 1));
  return CountOf("elements", "elements of the result", std::move(columns));
}

SizeNames PartNames::Row(const Value* part, size_t first, int64_t lanes, const CExpr& lanes_name,
                         int64_t count) const {
  const std::string name = NameOf(part);
  const Shape& shape = part->type.shape;
  SizeNames names = CountOf(name, "of \"" + name + "\"");
  names.sizes =
      lanes == 1 ? SizesOf(name, shape, first) : VectorsOf(name, shape, first, lanes, lanes_name);
  if (count == 1) return names;
  int64_t row = count;
  for (size_t axis = first; axis < shape.size(); ++axis)
    row *= shape[axis].AsConstant().value_or(0);
  names.sizes.push_back({row / lanes, lanes == 1 ? "part_elements" : "part_vectors",
                         (lanes == 1 ? "" : lanes_name.ToString() + " elements each, ") +
                             std::string("of a row of all parts")});
  names.sizes.push_back(Parts(count));
  return names;
}

}  // namespace fusec
