#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What the op's Infer says of these operands, after checking how many there are. Shared by builder and verifier; attributes that
// are missing or of the wrong kind (only hand-written IR text has them) are errors too. Not for constants and regions, whose types
// come from payload and body.
Result<std::vector<TensorType>> InferTypes(OpKind kind, const std::vector<Value*>& operands,
                                           const Attributes& attributes, const Ranges& ranges);

}  // namespace fusec
