#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// An error where an artifact is sharded and `verb` works on one that has kernels: it names the
// parts.
Result<void> CheckNotSharded(const std::string& artifact, const std::string& verb);

}  // namespace fusec
