#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Axes that a tensor may have, as in NumPy and PyTorch.
inline constexpr int64_t kMostAxes = 64;

// What the op's Infer says of these operands, after checking how many there are, and that the
// attributes are those that the op declares (only hand-written IR text has others). Shared by
// builder and verifier. Not for constants and regions, whose types come from payload and body.
Result<std::vector<TensorType>> InferTypes(OpKind kind, ArrayRef<Value*> operands,
                                           const Attributes& attributes, const Ranges& ranges);

// Whether the attributes are those that the op declares: `transpose lacks its attribute "perm"
// (ints)`.
Result<void> CheckAttributes(OpKind kind, const Attributes& attributes);

}  // namespace fusec
