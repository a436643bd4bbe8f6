#pragma once

#include <cstddef>

#include "passes/pass_manager.h"

namespace fusec {

// Passes that fuse look at the whole graph for every kernel that they make, so their time grows
// with its square. A graph of more than `most` nodes is cut into segments of at most `of_segment`,
// each a graph that takes what the segments before it make as inputs, and the pass runs on one
// after the other. Nothing is fused over a cut, which is made where few values cross.
struct SegmentSizes {
  size_t most = 2048, of_segment = 768;
};
Result<bool> RunInSegments(Graph& graph, PassFunction pass, const PassOptions& options,
                           PassReport& report, const SegmentSizes& sizes = {});

}  // namespace fusec
