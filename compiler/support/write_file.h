#pragma once

#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace fusec {

// Writes a whole file or nothing: the bytes go to a file beside it, which is then renamed, so that
// a full disk does not destroy an existing file. Symbolic links are followed; anything but a
// regular file, such as a pipe, is written directly. The error is of kind kUsage: "cannot write
// x.npy: No space left on device".
Result<void> WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace fusec
