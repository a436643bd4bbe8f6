#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Checks that a fused graph read from a file has the form that planning expects: it consists of
// constants and regions only, and each output is a different result of a region. It does not check
// whether the fusion passes would form these regions, since the IR of an artifact is checked
// against its hash. Errors name the place.
Result<void> CheckFused(const Graph& graph);

}  // namespace fusec
