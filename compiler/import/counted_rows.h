#pragma once

#include "compiler/import/counted_sizes.h"

namespace fusec {

// How nodes treat tensors with counted axes (counted_sizes.h). Along such an axis, the rows past
// the count are padding with undefined contents.

// Whether the padding rows of the operands affect only padding rows of the result, for example
// because each row of the result is computed from the same row of the operands.
bool IsRowLocal(const Node& node);

// Rebuilds a node that is not row-local so that its results do not depend on the padding rows.
// Returns one value per result, or an empty list if fusec has no rule for the op. Padding indices
// become 0, so that they are always in range; indices into a counted axis are checked against the
// count instead of the bound:
//
//   %sum = reduce_sum(%x: f32[count, 8]) {axes = [0]}
//     =>  %sum = reduce_sum(where(iota < count, %x, 0)) {axes = [0]}
ValueList WithoutRowsBehind(const Node& node, CountLookup count_of, const Ranges& ranges,
                            Builder& builder);

}  // namespace fusec
