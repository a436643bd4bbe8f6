#pragma once

#include <string>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that two artifacts differ only in their weights: signature, buffers, steps, and source and
// machine code of kernels must be the same. The error begins with `path`, the path of `other`, and
// names the first difference.
Status CheckSameProgram(const Manifest& manifest, const Manifest& other, const std::string& path);

}  // namespace fusec::runtime
