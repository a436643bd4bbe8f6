#pragma once

#include "compiler/ir/tensor.h"

namespace fusec {

// The tensor whose axis i is axis perm[i] of `source`, as a copy of its bytes. Pages of a mapped
// file are released on the way.
TensorData Transposed(const TensorData& source, ArrayRef<int64_t> perm);

}  // namespace fusec
