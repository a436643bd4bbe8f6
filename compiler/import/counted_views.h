#pragma once

#include "compiler/import/counted_sizes.h"

namespace fusec {

// Views of tensors with counted axes (counted_sizes.h).

// Whether the view maps valid elements (those before the counts) to valid elements and padding to
// padding.
bool KeepsRows(const Node& view);

// Reshapes x so that the valid elements, in row-major order, stay the valid elements of the result:
//
//   %y = reshape(%x: f32[p, q, 8]) {shape = [p*q, 8]}
//     =>  %y = gather(reshape(%x) {shape = [p*q*8]}, %places)
//
// `places` is computed from the true sizes at run time; for padding elements it is 0.
Value* ReshapeBeforeCounts(Value* x, ShapeRef shape, CountLookup count_of, Formula& f);

// Compacts `joined`, a concatenation along `axis` of parts that have padding rows: the padding of
// each part but the last would otherwise lie in the middle of the result.
Value* ConcatBeforeCounts(Value* joined, ArrayRef<Value*> parts, int axis, CountLookup count_of,
                          Formula& f);

}  // namespace fusec
