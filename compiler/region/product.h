#pragma once

#include <string>

#include "compiler/ir/dtype.h"

namespace fusec {

// What passes and planners both ask of matrix products.

// Products of a batch, each of matrices of its own, that one launch makes.
inline constexpr int64_t kMostMatrices = 128;

// So few columns leave the better part of a tile by warpgroups, or of the library, without work.
inline constexpr int64_t kNarrowColumns = 32;

// Whether a product of such numbers takes three of shorter ones (Arithmetic::kSplitTf32).
bool IsSplit(Dtype dtype, const std::string& precision);

}  // namespace fusec
