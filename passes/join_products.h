#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Joins products of the same rows by several constant matrices into one product by the matrices
// side by side, whose columns the readers share out: queries, keys and values of attention, the
// experts of a mixture, or its gates.
//
//   %q = add(matmul(%x, %a), %c)   f16[rows, 64]     %w = [%a %b], %d = [%c %e]
//   %k = add(matmul(%x, %b), %e)   f16[rows, 32]  => %y = add(matmul(%x, %w), %d)   f16[rows, 96]
//                                                    %q = slice(%y), %k = slice(%y)
//
// Pointwise ops behind the products are joined with them as far as all do the same, each with its
// own constants. Products stay apart where a slice would be stored once more or an epilogue would
// be lost:
//  - where a product by constant weights reads the result, since it reads rows that are whole;
//  - where the next op also reads a tensor that is made in another way, as a residual sum or a gate
//    does, since that op belongs into the product's epilogue;
//  - where the result is an output of the graph;
//  - where columns would begin at other than multiples of 16 bytes;
//  - where a block program would make the product together with its readers (small layers);
//  - where stack-products may take them together with equal layers of other rows.
//
// Exact: every element is computed of the same terms, and by the same ops.
Result<bool> JoinProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
