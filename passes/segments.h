#pragma once

#include <cstddef>

#include "passes/pass_manager.h"

namespace fusec {

// Fusion passes look at the whole graph for every kernel that they form, so their time grows with
// the square of its size. RunInSegments therefore cuts a graph of more than `most` nodes into
// segments of at most `of_segment` nodes and runs the pass on one segment after the other. Each
// segment is a graph of its own, whose inputs include the values that earlier segments make.
// Nothing is fused across a cut; cuts are made where few values cross, and views are moved to
// their first readers.
struct SegmentSizes {
  size_t most = 2048, of_segment = 768;
};
Result<bool> RunInSegments(Graph& graph, PassFunction pass, const PassOptions& options,
                           PassReport& report, const SegmentSizes& sizes = {});

}  // namespace fusec
