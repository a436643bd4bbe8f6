#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes what a scan, sort or scatter reads in its kernel, where that is cheap: views, look-ups
// and pointwise ops that nothing else reads.
//
//   %inside = gather(%numbers, %ids)             =>   %sorted, %order = region(%numbers, %ids) {
//   %sorted, %order = top_k(%inside)                    gather, top_k }
//
// A sort reads its elements several times, so that ops with transcendental functions stay out.
// Merges and searches of sorted lines read memory; in-place scatters belong to loops.
Result<bool> FuseSequential(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
