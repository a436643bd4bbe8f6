#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Returns the pointwise, view and gather nodes that one loop computes together with `root`, the
// node over whose elements the loop runs.
//
// A producer joins if all its readers are in the group (its elements are then computed where they
// are used), or if it is pointwise with the root's own shape (it is then also stored). It stays out
// if joining would compute an expensive element many times, and `report` says so. Siblings of a
// pointwise root or a look-up join as well: others of its shape that read or compute a value which
// the loop reads anyway, and whose results are stored in any case. Slices of that shape join if the
// loop slices the same tensor.
//
// With `pools`, reductions that one thread can compute alone join as well: short reductions, and
// embedding bags, which reduce over gathered rows but not over their columns, so that neighboring
// threads sum neighboring columns.
NodeSet GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report, bool pools = false);

}  // namespace fusec
