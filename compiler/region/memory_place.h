#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// The operand of the region that `value` of its body is, perhaps reshaped; null for any other value.
const Value* OperandOf(const Node& region, const Value* value);

// Where in memory an element lies that is reached through views only.
struct MemoryPlace {
  const Value* tensor;  // a value outside of the region
  Expr position;        // row-major position of the element
};

// Where element `index` of `value`, a value of the region's body, lies in memory. nullopt if
// anything but views computes it, or if its tensor depends on the index.
std::optional<MemoryPlace> FindInMemory(const Node& region, const Value* value,
                                        ArrayRef<Expr> index, const Ranges& ranges);

}  // namespace fusec
