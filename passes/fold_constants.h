#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes nodes whose operands are all constants, with the interpreter, in double; the result is
// rounded to its dtype once. A node is left alone if its result is larger than its operands
// together (expand of a scalar is cheaper than storing it) or if its dims are symbolic. Tensors too
// big for the interpreter are folded by fold_large.h. What is picked out of a tensor of sizes is
// folded as well where it depends on no symbol, as 27 of dims[batch, 27, 27].
//
//   %a = constant() [1.0, 2.0]
//   %b = exp(%a)              =>    %b = constant() [2.718, 7.389]
Result<bool> FoldConstants(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
