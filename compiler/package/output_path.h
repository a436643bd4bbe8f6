#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// The folder that `path` names, after symbolic links are followed. It must not exist, or be empty,
// or hold only an artifact, which the new one replaces. Any other place is an error, and so is one
// where nothing can be written. Call it before the work, so that a bad path fails early.
Result<std::string> CheckOutputPath(const std::string& path);

}  // namespace fusec
