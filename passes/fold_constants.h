#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes nodes whose operands are all constants, with the interpreter, in double; the result is
// rounded to its dtype once. A node is left alone if its result is larger than all its operands
// together (expanding a scalar is cheaper than storing the result) or if its dims are symbolic.
// fold_large.h folds tensors that are too big for the interpreter. In a tensor of sizes, the
// elements that depend on no symbol are folded as well, such as each 27 in dims[batch, 27, 27].
//
//   %a = constant() [1.0, 2.0]
//   %b = exp(%a)              =>    %b = constant() [2.718, 7.389]
Result<bool> FoldConstants(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
