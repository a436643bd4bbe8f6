#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Gives indices outside their axis a meaning, for PassOptions::index_policy (--index-policy). ONNX
// has none for them; with "error" nothing changes, and a run that meets one ends in an error. With
// `extent` elements on the axis, indices from -extent to -1 count from the end under every policy,
// and the others become
//
//   clamp   the nearest of 0 and extent - 1
//   wrap    index modulo extent, as Python means it
//   zero    nothing: reads give 0, writes are left out
//
// in gather, gather_elements, gather_nd, scatter_elements and scatter_nd; composite ops must have
// become these. An item of no request (--request-map) is an error under every policy, and so are
// lengths and counts of data that do not fit (failing_gather.h). Under "clamp":
//
//   %y = gather(%table, %ids) {axis = 0}  =>  %from_start = add(%ids, 200)
//                                             %below = less(%ids, 0)
//                                             %counted = where(%below, %from_start, %ids)
//                                             %capped = min(%counted, 199)
//                                             %inside = max(%capped, 0)
//                                             %y = gather(%table, %inside) {axis = 0}
//
// What is left is ordinary integer arithmetic, so that the interpreter obeys too, and code
// generation sees that these indices need no check. An axis without elements stays an error.
Result<bool> ApplyIndexPolicy(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
