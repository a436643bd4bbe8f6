#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Where a product by constant weights reads all pairwise products of two vectors' elements, makes
// the vector whose length is a multiple of 16 bytes the inner (fastest) one. Neighboring elements
// are then one element times neighboring elements, which one vector load reads.
//
//   %a = reshape(%x)             [batch, 100, 1]      %b = reshape(%y)            [batch, 26, 1]
//   %b = reshape(%y)             [batch, 1, 26]   =>  %a = reshape(%x)            [batch, 1, 100]
//   %p = mul(%a, %b)             [batch, 100, 26]     %p = mul(%b, %a)            [batch, 26, 100]
//   %r = reshape(%p)             [batch, 2600]        %r = reshape(%p)            [batch, 2600]
//   %z = matmul(%r, %w)                               %z = matmul(%r, %w_ordered)
//
// The result is exact except for the order of summation. fold-constants then computes the reordered
// weights.
Result<bool> OrderPairs(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
