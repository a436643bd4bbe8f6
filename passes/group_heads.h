#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Computes attention whose keys and values several heads share as attention of fewer heads with
// more queries each, so that keys and values are neither repeated nor read for every head:
//
//   q [batch, 14, new, 64], k and v [batch, 2, keys, 64], each repeated for 7 heads
// =>
//   q [batch, 2, new * 7, 64], k and v [batch, 2, keys, 64]
//
//   %e = expand(%k_apart) {shape = [batch, 2, 7, keys, 64]}
//   %r = reshape(%e) {shape = [batch, 14, keys, 64]}
//   %s = matmul(%q, %r) [batch, 14, new, keys]
// =>
//   %t = transpose(%q_apart) {perm = [0, 1, 3, 2, 4]}  [batch, 2, new, 7, 64]
//   %p = reshape(%t) {shape = [batch, 2, new * 7, 64]}
//   %s = matmul(%p, %k) [batch, 2, new * 7, keys]
//
// and so on up to the product with the values, behind which views restore the heads. Masks and
// biases become views with repeated rows. The result is exact, but for constant factors of the
// repeated keys: they multiply the queries instead, and are rounded there. Where there are always
// many queries, or a mask hides keys by their position alone (a kernel of tiles skips these),
// nothing changes.
Result<bool> GroupHeads(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
