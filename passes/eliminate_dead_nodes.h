#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Removes nodes whose results nobody reads. Inputs stay: they are the model's signature.
//
//   %a = relu(%x)                   %a = relu(%x)
//   %b = neg(%x)              =>    return %a
//   return %a
Result<bool> EliminateDeadNodes(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
