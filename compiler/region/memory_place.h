#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Where an element is that views alone find in memory.
struct MemoryPlace {
  const Value* tensor;  // outside the region
  Expr position;        // of the element, row-major
};

// The place of element `index` of `value`, a value of the region's body; nullopt where anything but
// views makes it, or where what stands in its place depends on the index.
std::optional<MemoryPlace> FindInMemory(const Node& region, const Value* value,
                                        ArrayRef<Expr> index, const Ranges& ranges);

}  // namespace fusec
