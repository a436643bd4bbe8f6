#pragma once

#include <string_view>

namespace fusec {

// Whether generated kernels give `name` a meaning of their own: C's and CUDA's words, the functions
// that kernels call, loop variables. Neither a tensor nor a dim may be called so in a kernel.
bool IsKernelWord(std::string_view name);

}  // namespace fusec
