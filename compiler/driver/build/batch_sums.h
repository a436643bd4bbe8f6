#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// A warning for every node of a graph of primitives that reduces elements of different rows of the
// batch to one, so that --batch-invariant cannot make its result independent of the batch. Every
// symbolic dim that is the first axis of an input or an output counts as a batch. A sort is not
// reported: sorting the rows of a batch, for example by their lengths, keeps their bits.
std::vector<std::string> SumsOverBatch(const Graph& graph);

}  // namespace fusec
