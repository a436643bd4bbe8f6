#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/ops/fitting_sizes.h"

namespace fusec {

Result<Shape> BroadcastShapes(ArrayRef<Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, Expr(1));
  for (const Shape& shape : shapes) {
    const size_t offset = rank - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      Expr& dim = result[offset + i];
      if (dim == shape[i] || shape[i].IsConstant(1)) continue;
      if (!dim.IsConstant(1)) {
        std::string text;
        for (const Shape& each : shapes) {
          if (!text.empty()) text += " and ";
          text += "[";
          for (size_t j = 0; j < each.size(); ++j) text += (j ? ", " : "") + each[j].ToString();
          text += "]";
        }
        return SizesDiffer("shapes " + text + " do not broadcast: " + dim.ToString() + " meets " +
                               shape[i].ToString() + ", expected equal dims or 1",
                           dim, shape[i]);
      }
      dim = shape[i];
    }
  }
  return result;
}

Exprs BroadcastIndex(ArrayRef<Expr> index, ShapeRef operand_shape) {
  const size_t offset = index.size() - operand_shape.size();
  Exprs operand_index;
  for (size_t i = 0; i < operand_shape.size(); ++i) {
    operand_index.push_back(operand_shape[i].IsConstant(1) ? Expr(0) : index[offset + i]);
  }
  return operand_index;
}

}  // namespace fusec
