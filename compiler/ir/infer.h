#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// The largest rank of a tensor, as in NumPy and PyTorch.
inline constexpr int64_t kMostAxes = 64;

// The result types from the op's Infer, after checking the number of operands and that the
// attributes are those that the op declares (only hand-written IR text can have others). The
// builder and the verifier both use it. Not for constants and regions, whose types come from
// payload and body.
Result<std::vector<TensorType>> InferTypes(OpKind kind, ArrayRef<Value*> operands,
                                           const Attributes& attributes, const Ranges& ranges);

// An error unless the attributes are those that the op declares: `transpose lacks its attribute
// "perm" (ints)`.
Result<void> CheckAttributes(OpKind kind, const Attributes& attributes);

}  // namespace fusec
