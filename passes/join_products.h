#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Joins products of the same rows by several constant matrices into one product by all matrices
// side by side; each reader takes a slice of its columns. Examples are queries, keys and values of
// attention, and the experts or the gates of a mixture. The matrices may also be weights of 4 bits
// that stay packed (keep-packed-weights).
//
//   %q = add(matmul(%x, %a), %c)   f16[rows, 64]     %w = [%a %b], %d = [%c %e]
//   %k = add(matmul(%x, %b), %e)   f16[rows, 32]  => %y = add(matmul(%x, %w), %d)   f16[rows, 96]
//                                                    %q = slice(%y), %k = slice(%y)
//
// Adapters in slots (adapter-slots) are joined with the products: one product makes the low-rank rows
// of all layers, and another multiplies these by a block diagonal of the layers' lora_B
// (slot_adapter.h). Pointwise ops after the products are joined as well, as far as they are the same
// for all products; each keeps its own constants. Products stay separate where a slice would have to be
// stored again, or where an epilogue would be lost:
//  - where a product by constant weights reads the result, since it needs contiguous rows, unless a
//    block program will compute that product;
//  - where the next op also reads a tensor from elsewhere, as a residual sum or a gate does, since
//    that op belongs into the product's epilogue; 16-bit products, most of which the library
//    computes, are joined if the op reads only products that are joined;
//  - where the result is an output of the graph;
//  - where the columns of a product would not begin at a multiple of 16 bytes;
//  - where a block program would compute the product together with its readers (small layers);
//  - where adapters have more than 64 terms in all, or products so small that loops compute them;
//  - where stack-products may stack them with equal layers of other rows.
//
// The result is exact: every element is computed from the same terms by the same ops.
Result<bool> JoinProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
