#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Checks that a fused graph which comes from a file is what planning expects: it has only constants
// and regions, and every output is a result of a region, no two the same one. Whether fusion would
// make these bodies is not checked, since an artifact's IR is held to its hash. Errors name the
// place.
Result<void> CheckFused(const Graph& graph);

}  // namespace fusec
