#pragma once

#include <set>

#include "passes/pass_manager.h"

namespace fusec {

// Pointwise, view and gather nodes that one loop computes, found from the node whose elements the
// loop walks.
//
// A producer joins if every reader of it is inside (its elements are then made where they are
// used), or if it is pointwise with the root's own shape (it is stored on the way). It stays out
// where joining would compute an expensive element many times, and `report` says so. Siblings of a
// pointwise root join as well: pointwise nodes of its shape that read what the loop reads anyway, and
// whose results would be stored in any case; so do slices of that shape of what the loop slices too.
//
// With `pools`, reductions that a thread does alone join as well: those of gathered rows that keep
// the rows' columns apart, so that neighbouring threads add up neighbouring columns, and short ones.
std::set<const Node*> GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report,
                                    bool pools = false);

}  // namespace fusec
