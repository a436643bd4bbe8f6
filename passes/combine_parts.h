#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Shortens the concatenated rows that are multiplied by constant weights: a part that is a linear
// combination of other parts is left out, and its weights are added to theirs. The interaction of
// deep interest networks (Zhou et al. 2018) then needs three parts instead of four:
//
//   %x = concat(%q, %h, sub(%q, %h), mul(%q, %h))       %x = concat(%q, %h, mul(%q, %h))
//   %y = matmul(%x, [a; b; c; d])                   =>  %y = matmul(%x, [a + c; b - c; d])
//
// A part may be any sum, difference or multiple (by a constant number) of the others, and two parts
// may be the same value. Replication (expand) is ignored in the comparison: if a part replicates a
// value, a sum may also read the value itself. split-seams multiplies a replicated part once for
// all of its rows.
//
// Rounding: the sums of weights are computed in double and rounded to their dtype once. A
// difference of parts that nearly cancels is not rounded by itself, but multiplied term by term:
// the error of q c - h c is relative to the terms, as the error of q a + h b is in any case.
// Products stay as they are if a sum of weights is not finite. Where q and h are both infinite, q -
// h is NaN; inf (a + c) + inf (b - c) is NaN as well, unless the two weights have the same sign.
Result<bool> CombineParts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
