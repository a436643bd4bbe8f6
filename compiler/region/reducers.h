#pragma once

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"

namespace fusec {

// What elements are folded in. The sum behind a mean of integers may not wrap, the mean fits.
Dtype FoldDtype(const Node& reducer);

// Reductions and matmuls: ops whose element is folded from many.
bool IsReducer(const Node& node);

// The operand elements that a matmul multiplies for element `index` of its result at step `k`.
Exprs MatMulOperandIndex(const Node& matmul, int side, ArrayRef<Expr> index, const Expr& k);
// Steps of a matmul's sum.
Expr MatMulDepth(const Node& matmul);

// For a reduction: the operand's element for element `index` of its result at coordinates `k` of
// the reduced axes.
Exprs ReductionOperandIndex(const Node& reduction, ArrayRef<Expr> index, ArrayRef<Expr> k);
Shape ReducedDims(const Node& reduction);

}  // namespace fusec
