#pragma once

#include <string>
#include <vector>

#include "compiler/ir/code_tokens.h"

namespace fusec {

// Returns the lines of a C++ statement that begins at column `indent`, broken before column 100
// like clang-format 14 does in Google style: each break has a penalty, which is higher the deeper
// it is nested and the more closely the separated parts belong together, and the layout with the
// least penalty is chosen. Every line but the first includes its indentation. The signature of a
// function (`is_signature`) begins with the function's name.
std::vector<std::string> BreakStatement(const CodeTokens& line, int indent,
                                        bool is_signature = false);

}  // namespace fusec
