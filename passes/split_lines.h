#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Splits the sorts of all lines that are too long for a block of a GPU, as split_sorts.h says.
Result<bool> SplitLines(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
