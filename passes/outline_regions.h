#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Before: any graph without composite ops. After: constants and regions only, each graph output the
// result of a region and each a tensor of its own (an input, constant or value returned twice is
// copied).
//
//   %y = relu(%x)             =>    %y = region(%x) {class = "pointwise"} { ... relu ... }
Result<bool> OutlineRegions(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
