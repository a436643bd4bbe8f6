#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// The folder that `path` means for an artifact, behind symbolic links: it does not exist or is
// empty, or holds an artifact and nothing else, which the next one replaces. Fails for any other
// place, and where nothing can be written. For failing before the work is done.
Result<std::string> CheckOutputPath(const std::string& path);

}  // namespace fusec
