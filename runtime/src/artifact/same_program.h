#pragma once

#include <string>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Checks that two artifacts differ in nothing but weights: the same signature, buffers, steps, and
// texts and machine code of kernels. The error begins with `path`, that of `other`, and names the
// first thing that differs.
Status CheckSameProgram(const Manifest& manifest, const Manifest& other, const std::string& path);

}  // namespace fusec::runtime
