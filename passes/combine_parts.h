#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Leaves parts out of the rows of a product by constant weights that are sums of its other parts,
// by adding up the weights. The interaction of deep interest networks (Zhou et al. 2018) gets by
// with three parts of four:
//
//   %x = concat(%q, %h, sub(%q, %h), mul(%q, %h))       %x = concat(%q, %h, mul(%q, %h))
//   %y = matmul(%x, [a; b; c; d])                   =>  %y = matmul(%x, [a + c; b - c; d])
//
// A part may be any sum, difference or multiple (by a constant number) of the others, or of one
// value twice. A part that is replicated (expand) may also be of the sum alone: split-seams
// multiplies it once for all of its rows.
//
// Rounding: the sums of weights are computed in double and rounded to their dtype once. A
// difference of parts that nearly cancels is no longer rounded by itself, but multiplied term by
// term: the error of q c - h c is relative to the terms, as that of q a + h b is already. Products
// stay as they are if a sum of weights is not finite. Where q and h are infinite both, q - h was no
// number, and so is inf (a + c) + inf (b - c) unless the signs of the weights agree.
Result<bool> CombineParts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
