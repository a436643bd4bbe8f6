#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/reference_context.h"

namespace fusec {

// Makes the outputs of a run of `graph`, which are as large as they can be, as large as the last of
// them says (Graph::run_time_sizes), and drops that one. Graphs without such sizes have all outputs
// as they are.
void TakeTrueSizes(const Graph& graph, std::vector<ReferenceTensor>& outputs);

}  // namespace fusec
