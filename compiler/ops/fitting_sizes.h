#pragma once

#include <optional>
#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// A ModelError that two sizes differ, for an op's Infer. Where they are equal for some sizes of one symbol (a run of them:
// `seq` = `min(seq, 50)` for 1..50, `seq*batch` = `6*batch` for 6), if two symbols are one (`rows*2` = `ids*2`), or if one is a
// multiple of others (`items` = `batch*9`), the error's `fitting_dim` says so, and import may keep to that.
tl::unexpected<Error> SizesDiffer(std::string message, const Expr& a, const Expr& b);

// The same for a quotient that is no whole number for all sizes. Where a symbol of the dividend that is a multiple of what is
// missing makes it one, the error's `fitting_dim` says so: `items` by 9 elements is `items_per_9*9`, a symbol that the model lacks.
tl::unexpected<Error> DoesNotDivide(std::string message, const Expr& dividend,
                                    const Expr& divisor, const Ranges& ranges);

// The same for `small <= large`, which holds where min(small, large) is small, for sizes of one symbol; of several, where both are equal.
tl::unexpected<Error> SizeTooSmall(std::string message, const Expr& small, const Expr& large);

}  // namespace fusec
