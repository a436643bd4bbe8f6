#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Splits products over a concatenation of columns that are the same for many rows and columns of
// each row at the seams, so that the former are multiplied once: columns per request
// (PassOptions::per_request), and columns that the model itself replicates (expand), such as a
// target beside each item of a history, where their product is worth a launch.
//
//   %row = concat(%u_of_item, %i)            %of_request = add(matmul(%u, %w_of_request), %b)
//   %p = matmul(%row, %w)             =>     %of_items = matmul(%i, %w_of_items)
//   %y = add(%p, %b)                         %y = add(%of_items, %of_request)
//
// %u_of_item replicates %u, by an expand or a gather by request_of_item. The rows of %w are sorted
// into those of either kind. A bias that is added to the product is added per request.
//
// Rounding: a sum of k terms becomes two sums, of the terms of either kind, which are each rounded
// to the product's dtype and added. With f16 and bf16 an answer so has one rounding of the
// request's sum more. The pass is left out with --round-every-op.
Result<bool> SplitSeams(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
