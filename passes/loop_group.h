#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Pointwise, view and gather nodes that one loop computes, found from the node whose elements the
// loop walks.
//
// A producer joins if all its readers are in the group (its elements are then made where they are
// used), or if it is pointwise with the root's own shape (it is then also stored). It stays out if
// joining would compute an expensive element many times, and `report` says so. Siblings of a
// pointwise root join as well: pointwise nodes of its shape that read what the loop reads anyway,
// and whose results are stored in any case. So do slices of that shape, of tensors that the loop
// slices.
//
// With `pools`, reductions that one thread can do alone join as well: embedding bags, which reduce
// gathered rows but not their columns, so that neighbouring threads sum neighbouring columns; and
// short reductions.
NodeSet GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report, bool pools = false);

}  // namespace fusec
