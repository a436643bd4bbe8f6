#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// If `node` casts integers to floats that were whole numbers in the same float type before they
// were cast to these integers, as in the ops between two layers of a quantized model: the same
// values without the integers, or null. The pass canonicalize uses it.
//
//   %y = min(max(round(%x), -128), 127)    f32[n]
//   %q = cast(%y)                          i8[n]     =>   %r = where(is_nan(%y), 0, %y) + 0
//   %r = cast(%q)                          f32[n]
//
// Exact: a cast to integers turns NaN and -0 into 0. The sum is left out where -0 cannot occur.
Value* SkipIntegers(const Node& node, Builder& builder);

}  // namespace fusec
