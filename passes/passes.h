#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// The functions behind passes.def; each is documented in the header of its own name.
#define FUSEC_PASS(name, Function, optional, segments, summary) \
  Result<bool> Function(Graph& graph, const PassOptions& options, PassReport& report);
#include "passes/passes.def"
#undef FUSEC_PASS

}  // namespace fusec
