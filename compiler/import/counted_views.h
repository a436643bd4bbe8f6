#pragma once

#include "compiler/import/counted_sizes.h"

namespace fusec {

// Views of tensors with counted axes (counted_sizes.h).

// Whether elements before the counts stay before them, and those behind stay behind.
bool KeepsRows(const Node& view);

// x with another shape of as many elements, which are those before the counts in row-major order:
//
//   %y = reshape(%x: f32[p, q, 8]) {shape = [p*q, 8]}
//     =>  %y = gather(reshape(%x) {shape = [p*q*8]}, %places)
//
// A place is made of the true sizes; for elements behind them it is 0.
Value* ReshapeBeforeCounts(Value* x, ShapeRef shape, CountLookup count_of, Formula& f);

// `joined`, a concatenation along `axis` of parts with as many rows as they can have, without the
// rows in its middle that are behind a count.
Value* ConcatBeforeCounts(Value* joined, ArrayRef<Value*> parts, int axis, CountLookup count_of,
                          Formula& f);

}  // namespace fusec
