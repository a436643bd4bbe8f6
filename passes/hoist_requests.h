#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes once per request what is the same for all of its items (PassOptions::per_request). Rows
// of the inputs per request are replicated in front of their readers (per_request.h); this pass
// moves the replication behind every op whose rows of an item depend on nothing but the same rows
// of replicated operands (row_wise.h):
//
//   %u_of_item = expand(%u) : f32[batch, 8]          %t_of_request = matmul(%u, %w) : f32[1, 4]
//   %t = matmul(%u_of_item, %w) : f32[batch, 4]  =>
//   %y = mul(%t, %i) : f32[batch, 4]                 %y = mul(%t_of_request, %i) : f32[batch, 4]
//
// What is left in the way of a replication reads it by broadcasting where it can: pointwise ops,
// and products of a stack of matrices for each item. A matrix of the request by which rows of items
// are multiplied makes one product of all rows. Neighbours in a concatenation are concatenated per
// request. Answers are those of the same ops on the same numbers; only the number of rows that a
// product has may choose another kernel for it. Reports what it moved, and what stopped it, to
// PassReport::request_split.
Result<bool> HoistRequests(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
