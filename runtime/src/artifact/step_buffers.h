#pragma once

#include <string>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that the lists of inputs and outputs of a step are the buffers that it passes on, in that
// order: the arena is packed by them. Constants and inputs are never written. `where` is the step,
// for errors.
Status CheckStepBuffers(const Manifest& manifest, const Step& step, const std::string& where);

}  // namespace fusec::runtime
