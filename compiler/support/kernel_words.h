#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace fusec {

// The words of C++ and CUDA, and what codegen_templates define.
const std::set<std::string, std::less<>>& KernelWords();

// Whether it looks like a constant of a kernel ("kRowLength").
bool IsKernelConstant(std::string_view name);

}  // namespace fusec
