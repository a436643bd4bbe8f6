#pragma once

#include <string>

#include "compiler/support/result.h"

namespace fusec {

// The bytes of a shared library compiled from C++ text, or taken from the kernel cache. The
// compiler is $FUSEC_CXX, else the first of g++, c++ and clang++ on PATH. `march` is "x86-64-v3",
// "x86-64-v4" or "native". Long texts are optimised less than `optimization`, the level of -O,
// says. With `batch_invariant`, an element has the same bits at every position of a loop and at
// every address. A missing compiler is a kToolchain error, and so is a failure, with the compiler's
// log.
Result<std::string> CompileHostLibrary(const std::string& source, const std::string& march,
                                       int optimization, bool batch_invariant = false);

}  // namespace fusec
