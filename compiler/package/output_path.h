#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// Returns the folder that `path` names, with symbolic links resolved. It is an error unless the
// folder does not exist, is empty, or contains only an artifact, which the new one will replace,
// and unless it can be written. Call this before the work, so that a bad path fails early.
Result<std::string> CheckOutputPath(const std::string& path);

}  // namespace fusec
