#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Lengthens the rows of a concatenation that only products by constant weights read, so that each
// row begins at a multiple of 16 bytes and copies of 16 bytes and tensor cores can read it:
//
//   %x = concat(%a, %b) {axis = 1} : f16[batch, 367]
//   %y = matmul(%x, %w)            =>  %zeros = expand(0) : f16[batch, 1]
//                                      %x = concat(%a, %b, %zeros) {axis = 1} : f16[batch, 368]
//                                      %y = matmul(%x, %w_padded)
//
// with zeros in the new weights as well. Exact.
Result<bool> PadDepth(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
