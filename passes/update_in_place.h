#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Marks outputs that lie in the memory of inputs, as PassOptions::in_place says (--in-place):
// caches of keys and values to which a call adds rows. Kernels then write only these rows. Such an
// output is the result of a tensor_scatter of the input, which nothing else reads.
//
//   %present = tensor_scatter(%past, %k, %start) {axis = 2, circular = 0} : f16[batch, 2, size, 64]
// =>
//   %present = tensor_scatter(%past, %k, %start) {axis = 2, circular = 0, in_place = 1} : ...
//
// The pass must run before decompose, which turns a marked tensor_scatter into a scatter_elements
// in place, and others into ops that compute all rows. An output that cannot lie in the input's
// memory is an error that says why.
Result<bool> UpdateInPlace(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
