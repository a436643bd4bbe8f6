#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Planning trusts that a graph is one that fusion makes: that the reductions of a kernel walk the
// same rows, that a library's product has a bias where it expects one. Of a graph that comes from a
// file this says whether it holds. There are constants and regions only, every output is a result
// of a region, each of another, and the passes that make regions of a class, given the body of one
// alone, make this region of it. Errors name the first place where that does not hold.
Result<void> CheckFused(const Graph& graph);

}  // namespace fusec
