#include "compiler/import/import_context.h"

#include <algorithm>

namespace fusec {

Result<void> ImportContext::AddNode(OpKind kind, ValueList operands, Attributes attributes) {
  Result<Node*> node = builder().Add(kind, std::move(operands), std::move(attributes));
  if (!node) return tl::unexpected<Error>(node.error());
  const int results = static_cast<int>((*node)->results.size());
  for (int i = 0; i < std::min(output_count(), results); ++i) SetOutput(i, (*node)->result(i));
  return {};
}

Result<int64_t> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return ModelError("axis is " + std::to_string(axis) + ", but the rank is " +
                      std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank) {
  for (int64_t& axis : axes) {
    FUSEC_ASSIGN(axis, NormalizeAxis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  const auto repeat = std::adjacent_find(axes.begin(), axes.end());
  if (repeat != axes.end())
    return ModelError("axis " + std::to_string(*repeat) + " is named twice");
  return axes;
}

}  // namespace fusec
