#pragma once

#include <string>
#include <vector>

namespace fusec {

// Checks the style that readers of generated kernels rely on. Each returned entry is a line of `text` that breaks it, with the reason.
// `text` is the file of one kernel. Layout is not checked here, but by clang-format.
std::vector<std::string> LintKernel(const std::string& text);

}  // namespace fusec
