#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// A warning for every node of a graph of primitives that folds elements of different rows of the
// batch into one, so that --batch-invariant cannot make its result independent of the batch. The
// batch is every dim of run-time size that is the first axis of an input or an output. A sort is no
// such node: sequences that are sorted by their lengths keep their bits.
std::vector<std::string> SumsOverBatch(const Graph& graph);

}  // namespace fusec
