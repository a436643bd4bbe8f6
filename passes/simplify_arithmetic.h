#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Strength reduction: returns a cheaper value that equals the result of `node`, either new nodes,
// which `builder` inserts before it, or one of its operands; null if there is none. The pass
// canonicalize uses it for floats:
//
//   x * 1, x / 1, x - 0, pow(x, 1)    x
//   pow(x, 2)                         x * x               one rounding, where pow has one or more
//   pow(x, 3)                         x * x * x           two roundings; in f32 and f64 only
//   pow(x, -1)                        1 / x               one rounding
//   pow(x, 0.5)                       sqrt(x)             one rounding; x never negative or -0
//   pow(x, -0.5)                      1 / sqrt(x)         two roundings; likewise, f32 and f64 only
//   x / c                             x * (1 / c)         exact, for powers of two
//
// All give what the left side gives for NaN, infinities and -0, which is why sqrt has a condition:
// pow(-0, 0.5) is 0 and pow(-inf, 0.5) is inf, while sqrt gives -0 and NaN. x + 0 stays: it turns
// -0 into 0. In f16 and bf16 a step in between could be rounded to the type, so forms with two
// roundings stay away from them.
Value* SimplifyArithmetic(const Node& node, Builder& builder);

}  // namespace fusec
