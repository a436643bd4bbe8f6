#pragma once

#include <string_view>

namespace fusec {

// Whether generated kernels give `name` a meaning of their own: C++'s and CUDA's words, what
// codegen_templates define, loop variables. Neither a tensor nor a dim may be called so in a
// kernel.
bool IsKernelWord(std::string_view name);

// Whether it looks like a constant of a kernel ("kRowLength"), which dims could be called, too.
bool IsKernelConstant(std::string_view name);

}  // namespace fusec
