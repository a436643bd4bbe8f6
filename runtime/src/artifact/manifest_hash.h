#pragma once

#include <string>
#include <string_view>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Whether a manifest is as it was written, where it says its own hash. Most of what steers kernels
// has no other witness: a digit that changed in a dim would overrun memory.
Status CheckManifestHash(std::string_view json, const std::string& file);

}  // namespace fusec::runtime
