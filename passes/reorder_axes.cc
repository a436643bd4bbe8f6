#include "passes/reorder_axes.h"

#include <algorithm>
#include <iterator>

#include "compiler/ir/op_def.h"

namespace fusec {

bool KeepsPlaces(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && !node.operands.empty() &&
         !node.Has("axis");
}

std::vector<int64_t> InverseOf(ArrayRef<int64_t> perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis)
    inverse[perm[axis]] = static_cast<int64_t>(axis);
  return inverse;
}

Shape WithoutUnitAxes(ShapeRef shape) {
  Shape rest;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest),
               [](const Expr& extent) { return !extent.IsConstant(1); });
  return rest;
}

}  // namespace fusec
