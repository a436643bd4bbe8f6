#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// A shared library from C++ text, made by the machine's C++ compiler ($FUSEC_CXX, else g++, c++,
// clang++ on PATH), through the kernel cache. `march` is "x86-64-v3", "x86-64-v4" or "native".
// Long texts are optimised less than `optimization` says. `batch_invariant`: an element has the same
// bits wherever it lies in a loop or in memory. No compiler is a kToolchain error; so is a failure,
// with the compiler's log.
Result<std::string> CompileHostLibrary(const std::string& source, const std::string& march,
                                       int optimization, bool batch_invariant = false);

}  // namespace fusec
