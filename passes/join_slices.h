#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// For a concatenation of all slices that a tensor is cut into along one axis: the tensor itself, or
// views of it that only reorder axes. Otherwise null. This is how some models give each head of
// attention its columns, and put the heads side by side again:
//
//   %a = slice(%x)       f32[batch, 26, 4]           %r = reshape(%x)     f32[batch, 26, 2, 4]
//   %b = slice(%x)       f32[batch, 26, 4]           %y = transpose(%r) {perm = [2, 0, 1, 3]}
//   %c = reshape(%a)     f32[1, batch, 26, 4]   =>
//   %d = reshape(%b)     f32[1, batch, 26, 4]
//   %y = concat(%c, %d)  f32[2, batch, 26, 4]
Value* JoinedSlices(const Node& concat, Builder& builder);

}  // namespace fusec
