#pragma once

#include "compiler/import/counted_sizes.h"

namespace fusec {

// Nodes that read tensors with counted axes (counted_sizes.h).

// Whether rows behind the counts of operands only reach rows behind those of the result, as where
// each row is computed from the same row of the operands.
bool IsRowLocal(const Node& node);

// What gives the answer of a node that is not row-local, whatever the rows behind counts hold; one
// value for each result, and none where fusec has no rule. Indices behind the count become 0, so
// that no look-up of them fails, and look-ups in counted rows end at the count:
//
//   %sum = reduce_sum(%x: f32[count, 8]) {axes = [0]}
//     =>  %sum = reduce_sum(where(iota < count, %x, 0)) {axes = [0]}
ValueList WithoutRowsBehind(const Node& node, CountLookup count_of, const Ranges& ranges,
                            Builder& builder);

}  // namespace fusec
