#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Moves a layer normalization behind the linear layers that follow it, with column sums of the
// weights that are computed at compile time. Scale and shift are in the weights by then
// (fold-affine), and a bias is added after the division by the deviation, as before:
//
//   %d = sub(%x, %mean)                  %p = matmul(%x, %w)
//   %n = div(%d, %deviation)             %t = mul(%mean, %w_sums)     sums[n] = sum over k w[k, n]
//   %y = matmul(%n, %w)          =>      %q = sub(%p, %t)
//                                        %y = div(%q, %deviation)
//
// The product need not wait for the statistics, and the normalized rows are never stored. Not part
// of a compilation, because it does not pay and is less exact:
//  - The library's epilogues have no factor per row, so a kernel of its own ends the layer: 3
//    launches instead of 2 (2 where k = n, with the statistics made by the last). Its n columns are
//    written and read once more where k columns were, 2 k + 3 n instead of 3 k + n elements of
//    traffic per row, which is more unless n < k / 2. Small layers are one kernel already
//    (fuse-block-program), and layers of one column a row reduction.
//  - p and mean * sums cancel by |mean| / deviation. Relative L2 error of y for k = n = 768, before
//    and after, in f32 and with f16 storage:
//        |mean| / deviation      0               1               10              100
//        f32               4e-7   4e-7     4e-7   5e-7     5e-7   4e-6     5e-6   4e-5
//        f16               2e-4   2e-4     2e-4   3e-4     2e-4   2e-3     2e-4   2e-2
//
// Rounding: the sums are of the rounded weights, in double and rounded to their dtype once.
// `fusec opt --passes=pull-normalization` shows it.
Result<bool> PullNormalization(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
