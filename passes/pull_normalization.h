#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Moves a layer normalization behind the linear layers that follow it, with column sums of the
// weights that are computed at compile time. fold-affine has moved scale and shift into the weights
// before, and a bias is added after the division by the deviation, as in the original graph:
//
//   %d = sub(%x, %mean)                  %p = matmul(%x, %w)
//   %n = div(%d, %deviation)             %t = mul(%mean, %w_sums)     sums[n] = sum over k w[k, n]
//   %y = matmul(%n, %w)          =>      %q = sub(%p, %t)
//                                        %y = div(%q, %deviation)
//
// The product need not wait for the statistics, and the normalized rows are never stored. The pass
// is not part of a compilation, because it does not pay and is less exact:
//  - The library's epilogues have no factor per row, so a separate kernel ends the layer: 3
//    launches instead of 2 (2 where k = n, since the last kernel then computes the statistics).
//    Instead of k columns, n columns are written and read once more: 2 k + 3 n instead of 3 k + n
//    elements of traffic per row, which is more unless n < k / 2. Small layers are one kernel in
//    any case (fuse-block-program), and layers of one column are a row reduction.
//  - p and mean * sums cancel by |mean| / deviation. Relative L2 error of y for k = n = 768, before
//    and after, in f32 and with f16 storage:
//        |mean| / deviation      0               1               10              100
//        f32               4e-7   4e-7     4e-7   5e-7     5e-7   4e-6     5e-6   4e-5
//        f16               2e-4   2e-4     2e-4   3e-4     2e-4   2e-3     2e-4   2e-2
//
// Rounding: the sums are of the rounded weights, computed in double and rounded to their dtype
// once. `fusec opt --passes=pull-normalization` runs the pass.
Result<bool> PullNormalization(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
