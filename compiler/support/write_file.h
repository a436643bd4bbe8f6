#pragma once

#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace fusec {

// Writes a file whole or not at all: aside first, then renamed, so that a full disk costs nobody
// the file that was there. A link is followed; what is no file, such as a pipe, is written in
// place. The error is of kind kUsage: "cannot write x.npy: No space left on device".
Result<void> WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace fusec
