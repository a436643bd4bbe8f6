#pragma once

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"

namespace fusec {

// The dtype in which elements are accumulated. It is wide for means of integers, whose sum must not
// wrap even though the mean fits.
Dtype FoldDtype(const Node& reducer);

// Whether the node is a reduction or a matmul: each element of the result is accumulated from many.
bool IsReducer(const Node& node);

// The index of the element of operand `side` that a matmul multiplies for element `index` of its
// result at step `k`.
Exprs MatMulOperandIndex(const Node& matmul, int side, ArrayRef<Expr> index, const Expr& k);
// The number of terms of a matmul's sums.
Expr MatMulDepth(const Node& matmul);

// The index of the operand element that a reduction folds into element `index` of its result at
// coordinates `k` of the reduced axes.
Exprs ReductionOperandIndex(const Node& reduction, ArrayRef<Expr> index, ArrayRef<Expr> k);
Shape ReducedDims(const Node& reduction);

}  // namespace fusec
