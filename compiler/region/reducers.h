#pragma once

#include "compiler/ir/op_def.h"

namespace fusec {

// What elements are folded in. The sum behind a mean of integers may not wrap, the mean fits.
Dtype FoldDtype(const Node& reducer);

// Reductions and matmuls: ops whose element is folded from many.
bool IsReducer(const Node& node);

// The operand elements that a matmul multiplies for element `index` of its result at step `k`.
std::vector<Expr> MatMulOperandIndex(const Node& matmul, int side, const std::vector<Expr>& index,
                                     const Expr& k);
// Steps of a matmul's sum.
Expr MatMulDepth(const Node& matmul);

// For a reduction: the operand's element for element `index` of its result at coordinates `k` of
// the reduced axes.
std::vector<Expr> ReductionOperandIndex(const Node& reduction, const std::vector<Expr>& index,
                                        const std::vector<Expr>& k);
Shape ReducedDims(const Node& reduction);

}  // namespace fusec
