#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/reference_context.h"

namespace fusec {

// Shrinks the outputs of a run of `graph`, which have the largest possible sizes, to the true sizes
// in the last output (Graph::run_time_sizes), and removes that output. Does nothing for graphs
// without run-time sizes.
void TakeTrueSizes(const Graph& graph, std::vector<ReferenceTensor>& outputs);

}  // namespace fusec
