#pragma once

#include <optional>
#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// A ModelError that two sizes differ, for an op's Infer. Its `fitting_dim` holds a restriction
// under which the sizes are equal, if one is found; import may then restrict the model to it. It is
// a contiguous range of sizes of one symbol (`seq` = `min(seq, 50)` for 1..50, `seq*batch` =
// `6*batch` for 6), the equality of two symbols (`rows*2` = `ids*2`), or a symbol that is a
// multiple of others (`items` = `batch*9`).
tl::unexpected<Error> SizesDiffer(std::string message, const Expr& a, const Expr& b);

// The same for a quotient that is not a whole number for all sizes. If making a symbol of the
// dividend a multiple of some number makes the quotient whole, `fitting_dim` says so: `items`
// divided by 9 gives `items_per_9*9`, where `items_per_9` is a new symbol.
tl::unexpected<Error> DoesNotDivide(std::string message, const Expr& dividend,
                                    const Expr& divisor, const Ranges& ranges);

// The same for an unproven `small <= large`: the sizes of one symbol for which min(small, large) is
// small, or else a restriction under which both are equal.
tl::unexpected<Error> SizeTooSmall(std::string message, const Expr& small, const Expr& large);

}  // namespace fusec
