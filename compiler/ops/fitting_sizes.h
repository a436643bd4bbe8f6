#pragma once

#include <optional>
#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// A ModelError that two sizes differ, for an op's Infer. Where they are equal for some sizes of one symbol (a run of them:
// `seq` = `min(seq, 50)` for 1..50, `seq*batch` = `6*batch` for 6), the error's `fitting_dim` says which, and import may keep to those.
tl::unexpected<Error> SizesDiffer(std::string message, const Expr& a, const Expr& b);

// The same for `small <= large`, which holds where min(small, large) is small.
tl::unexpected<Error> SizeTooSmall(std::string message, const Expr& small, const Expr& large);

}  // namespace fusec
