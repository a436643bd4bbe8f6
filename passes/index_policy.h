#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Defines what out-of-range indices do, as PassOptions::index_policy says (--index-policy). ONNX
// does not define it. With "error" the graph stays as it is, and an out-of-range index fails the
// run. For an axis of `extent` elements, indices from -extent to -1 count from the end under every
// policy, and other out-of-range indices become
//
//   clamp   the nearest of 0 and extent - 1
//   wrap    index modulo extent, as Python means it
//   zero    nothing: reads give 0, writes are left out
//
// The pass rewrites gather, gather_elements, gather_nd, scatter_elements and scatter_nd; it runs
// after composite ops have been decomposed into these. Under every policy it is an error if an item
// belongs to no request (--request-map), and if lengths or counts in the data do not fit
// (failing_gather.h). Under "clamp":
//
//   %y = gather(%table, %ids) {axis = 0}  =>  %from_start = add(%ids, 200)
//                                             %below = less(%ids, 0)
//                                             %counted = where(%below, %from_start, %ids)
//                                             %capped = min(%counted, 199)
//                                             %inside = max(%capped, 0)
//                                             %y = gather(%table, %inside) {axis = 0}
//
// The result is ordinary integer arithmetic, so the interpreter follows the policy as well, and
// code generation proves that these indices need no check. An axis without elements stays an error.
Result<bool> ApplyIndexPolicy(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
