#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that nothing is read before it is written, and that every output of the model is written:
// other memory holds what was there before. `where` is the list of steps, for errors.
Status CheckStepOrder(const Manifest& manifest, const std::vector<Step>& steps,
                      const std::string& where);

// The same of the steps that run for these sizes of the dims. Of steps that make the same values,
// only one may.
Status CheckRunOrder(const Manifest& manifest, const std::vector<Step>& steps,
                     std::span<const int64_t> symbols);

}  // namespace fusec::runtime
