#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// What planning expects of a fused graph, for one that comes from a file: there are constants and
// regions only, and every output is a result of a region, each of another. Whether fusion would make
// the regions' bodies is not asked: an artifact's IR is held to its hash. Errors name the place.
Result<void> CheckFused(const Graph& graph);

}  // namespace fusec
