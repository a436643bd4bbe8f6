#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Pads the rows of a concatenation that only products by constant weights read, so that each row
// begins at a multiple of 16 bytes, as 16-byte copies and tensor cores need:
//
//   %x = concat(%a, %b) {axis = 1} : f16[batch, 367]
//   %y = matmul(%x, %w)            =>  %zeros = expand(0) : f16[batch, 1]
//                                      %x = concat(%a, %b, %zeros) {axis = 1} : f16[batch, 368]
//                                      %y = matmul(%x, %w_padded)
//
// The weights of the padding are zeros, too, so the result is exact.
Result<bool> PadDepth(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
