#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes equal nodes (op, operands, attributes; constants by their bytes) once.
//
//   %a = relu(%x)
//   %b = relu(%x)             =>    %a = relu(%x)
//   return %a, %b                   return %a, %a
Result<bool> EliminateCommon(Graph& graph, const PassOptions& options, PassReport& report);

// The same for any graph, such as the body of a region. Returns whether nodes were equal.
bool MergeEqualNodes(Graph& graph);

}  // namespace fusec
