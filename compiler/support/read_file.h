#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// All bytes of a file. The error has `kind` and the path: "x.npy: cannot be read: ...", "x.npy: is
// a folder, expected a file".
Result<std::string> ReadWholeFile(const std::string& path, ErrorKind kind);

}  // namespace fusec
