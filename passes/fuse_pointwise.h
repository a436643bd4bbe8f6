#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Joins pointwise, view and gather nodes that feed each other into one loop, starting from the last
// node (GrowLoopGroup).
//
//   %s = add(%x, %bias)
//   %h = relu(%s)             =>    %h = region(%x, %bias) {class = "pointwise"} { ... }
Result<bool> FusePointwise(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
