#include "compiler/ops/operand_checks.h"

#include <fmt/format.h>

namespace fusec {

Result<void> CheckFloatsAlongAxis(const InferContext& context) {
  const TensorType& x = context.operand(0);
  const int64_t axis = context.Int("axis");
  if (!IsFloat(x.dtype)) {
    return ModelError(fmt::format("the operand is {}, expected a float type", DtypeName(x.dtype)));
  }
  if (axis < 0 || axis >= x.rank()) {
    return ModelError(fmt::format("axis is {}, but the rank is {}", axis, x.rank()));
  }
  return {};
}

Result<std::vector<Shape>> ShapesOfOneDtype(const InferContext& context) {
  const Dtype dtype = context.operand(0).dtype;
  std::vector<Shape> shapes;
  for (const TensorType* operand : context.operands) {
    if (operand->dtype != dtype || dtype == Dtype::kBool) {
      return ModelError(fmt::format("operands are {} and {}, expected one type of numbers",
                                    DtypeName(dtype), DtypeName(operand->dtype)));
    }
    shapes.push_back(operand->shape);
  }
  return shapes;
}

}  // namespace fusec
