#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes once per request what is the same for all of its items (PassOptions::per_request). The
// rows of per-request inputs are replicated in front of their readers (per_request.h). This pass
// moves the replication behind every op for which the rows of an item depend only on the same
// item's rows of replicated operands (row_wise.h):
//
//   %u_of_item = expand(%u) : f32[batch, 8]          %t_of_request = matmul(%u, %w) : f32[1, 4]
//   %t = matmul(%u_of_item, %w) : f32[batch, 4]  =>
//   %y = mul(%t, %i) : f32[batch, 4]                 %y = mul(%t_of_request, %i) : f32[batch, 4]
//
// An op behind which the replication cannot move reads the row of the request by broadcasting where
// it can: pointwise ops, and products with a stack of matrices for each item. Where rows of items
// are multiplied by a matrix of the request, one product computes all rows. Neighboring per-request
// parts of a concatenation are concatenated per request. The same ops run on the same numbers; the
// only difference is that a product with fewer rows may get another kernel. Reports what it moved,
// and what stopped it, to PassReport::request_split.
Result<bool> HoistRequests(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
