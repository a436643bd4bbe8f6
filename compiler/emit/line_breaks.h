#pragma once

#include <string>
#include <vector>

#include "compiler/ir/code_tokens.h"

namespace fusec {

// The lines of a C++ statement that begins at column `indent`, broken before column 100 where
// clang-format (14, Google's style) would: each break costs the more, the deeper and tighter what
// it separates is bound, and the cheapest layout wins. Every line but the first starts with its own
// spaces. A function's signature begins with its name (`is_signature`).
std::vector<std::string> BreakStatement(const CodeTokens& line, int indent,
                                        bool is_signature = false);

}  // namespace fusec
