#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// Reads a whole file. The error has `kind` and names the path: "x.npy: cannot be read: ...",
// "x.npy: is a folder, expected a file".
Result<std::string> ReadWholeFile(const std::string& path, ErrorKind kind);

}  // namespace fusec
