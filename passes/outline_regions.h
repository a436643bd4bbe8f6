#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Puts every node that is not in a region yet into a region of its own. Before: any graph without
// composite ops. After: constants and regions only, and each graph output is a different result of
// a region (inputs, constants and values that are returned twice are copied).
//
//   %y = relu(%x)             =>    %y = region(%x) {class = "pointwise"} { ... relu ... }
Result<bool> OutlineRegions(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
