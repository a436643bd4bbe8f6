#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace fusec {

// Names that generated kernels must not use for other things: the keywords of C++, built-in names
// of CUDA, and the names that codegen_templates define.
const std::set<std::string, std::less<>>& KernelWords();

// Whether a name has the form of a kernel constant ("kRowLength").
bool IsKernelConstant(std::string_view name);

}  // namespace fusec
