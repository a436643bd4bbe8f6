#pragma once

#include <string>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that the inputs and outputs of a step are exactly the buffers of its arguments, in that
// order, because the arena is packed by these lists, and that it writes no constants or inputs.
// `where` names the step in errors.
Status CheckStepBuffers(const Manifest& manifest, const Step& step, const std::string& where);

}  // namespace fusec::runtime
