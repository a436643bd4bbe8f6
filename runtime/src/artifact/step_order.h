#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that no buffer is read before it is written, and that every output of the model is
// written, so that no uninitialized memory is read. `where` names the list of steps in errors.
Status CheckStepOrder(const Manifest& manifest, const std::vector<Step>& steps,
                      const std::string& where);

// The same check for the steps that run for these values of the symbols. Of several steps that
// compute the same values only one may run.
Status CheckRunOrder(const Manifest& manifest, const std::vector<Step>& steps,
                     std::span<const int64_t> symbols);

}  // namespace fusec::runtime
