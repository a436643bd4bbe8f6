#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Marks outputs that lie in the memory of inputs, as PassOptions::in_place says (--in-place):
// caches of keys and values to which a call adds rows. Kernels then write only these rows. Such an
// output is the result of a scatter of the input, which nothing else reads: a tensor_scatter, a
// scatter_elements, or a scatter_nd of rows, possibly between transposes (PyTorch's index_copy and
// x[:, :, positions] = rows), which becomes a scatter_elements. No two new rows may have one place.
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
