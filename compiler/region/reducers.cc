#include "compiler/region/reducers.h"

#include <algorithm>

namespace fusec {

Dtype FoldDtype(const Node& reducer) {
  const Dtype dtype = reducer.operand(0)->type.dtype;
  if (reducer.kind != OpKind::kReduceMean || !IsInteger(dtype)) return dtype;
  return IsUnsigned(dtype) ? Dtype::kU64 : Dtype::kI64;
}

bool IsReducer(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kReduction || op_class == OpClass::kContraction;
}

Expr MatMulDepth(const Node& matmul) {
  const Shape& a = matmul.operand(0)->type.shape;
  const bool is_turned = matmul.Has("transpose_a") && matmul.Int("transpose_a") != 0;
  return a[a.size() - (is_turned ? 2 : 1)];
}

Exprs MatMulOperandIndex(const Node& matmul, int side, ArrayRef<Expr> index, const Expr& k) {
  const Shape& shape = matmul.operand(side)->type.shape;
  const Exprs batch(index.begin(), index.end() - 2);
  Exprs at = BroadcastIndex(batch, Shape(shape.begin(), shape.end() - 2));
  const Expr other = index[index.size() - 2 + side];
  const bool stored_swapped = matmul.Int(side == 0 ? "transpose_a" : "transpose_b") != 0;
  const bool k_first = (side == 1) != stored_swapped;
  at.push_back(k_first ? k : other);
  at.push_back(k_first ? other : k);
  return at;
}

Shape ReducedDims(const Node& reduction) {
  Shape dims;
  for (const int64_t axis : reduction.Ints("axes"))
    dims.push_back(reduction.operand(0)->type.shape[axis]);
  return dims;
}

Exprs ReductionOperandIndex(const Node& reduction, ArrayRef<Expr> index, ArrayRef<Expr> k) {
  const auto& axes = reduction.Ints("axes");
  const bool keeps = reduction.Int("keepdims") != 0;
  Exprs at;
  size_t kept = 0;
  for (int64_t axis = 0; axis < reduction.operand(0)->type.rank(); ++axis) {
    const auto found = std::find(axes.begin(), axes.end(), axis);
    if (found != axes.end()) {
      at.push_back(k[found - axes.begin()]);
      if (keeps) ++kept;
    } else {
      at.push_back(index[kept++]);
    }
  }
  return at;
}

}  // namespace fusec
