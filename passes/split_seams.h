#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Splits a product that reads a concatenation of shared columns, which are the same for many rows,
// and columns that differ in each row. The two kinds are multiplied separately, so that shared
// columns are multiplied only once. Shared columns are columns per request
// (PassOptions::per_request), and columns that the model itself replicates (expand), such as a
// target beside each item of a history, where their product is large enough to be worth a launch.
//
//   %row = concat(%u_of_item, %i)            %of_request = add(matmul(%u, %w_of_request), %b)
//   %p = matmul(%row, %w)             =>     %of_items = matmul(%i, %w_of_items)
//   %y = add(%p, %b)                         %y = add(%of_items, %of_request)
//
// %u_of_item replicates %u, by an expand or by a gather by request_of_item. The rows of %w are
// divided between the two products in the same way. A bias that is added to the product is added to
// the product of the shared columns.
//
// Rounding: a sum of k terms becomes two sums, which are each rounded to the product's dtype and
// added. With f16 and bf16, an answer therefore has one more rounding, that of the sum per request.
// The pass is left out with --round-every-op.
Result<bool> SplitSeams(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
