#pragma once

#include <string>
#include <vector>

namespace fusec {

// What a reader of a generated kernel may expect: each entry is a line of `text` that breaks it, and why. `text` is the file of one
// kernel. How it is laid out is clang-format's to say.
std::vector<std::string> LintKernel(const std::string& text);

}  // namespace fusec
