#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Orders the products of all pairs of two vectors' elements, which a product by constant weights
// reads, such that the vector whose length is a multiple of 16 bytes stands inside: neighbours are
// then products of one element by neighbours, which are loaded together.
//
//   %a = reshape(%x)             [batch, 100, 1]        %b = reshape(%y)            [batch, 26, 1]
//   %b = reshape(%y)             [batch, 1, 26]   =>    %a = reshape(%x)            [batch, 1, 100]
//   %p = mul(%a, %b)             [batch, 100, 26]       %p = mul(%b, %a)            [batch, 26, 100]
//   %r = reshape(%p)             [batch, 2600]          %r = reshape(%p)            [batch, 2600]
//   %z = matmul(%r, %w)                                 %z = matmul(%r, %w_ordered)
//
// The result is exact except for the order of summation. The weights are constants again behind
// fold-constants.
Result<bool> OrderPairs(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
