#pragma once

#include "compiler/index/expr.h"

namespace fusec {

// Whether the two are equal for all values of the symbols; false may mean "unknown".
bool ProvenEqual(const Expr& a, const Expr& b, const Ranges& ranges);

// For element `index` of a tensor of shape `to` that is a reshape of one of shape `from`: its index
// in that one. Groups of dims with equally many elements are treated separately, so that batch and
// row dims are passed through unchanged, whatever is provable about the others.
Exprs IndexBeforeReshape(ArrayRef<Expr> index, ArrayRef<Expr> from, ArrayRef<Expr> to,
                         const Ranges& ranges);

}  // namespace fusec
