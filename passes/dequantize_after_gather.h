#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Looks rows up before they are dequantized, where a model brings quantized tables of its own: what
// is computed of constants alone would be folded into a table of floats. If only gathers along the
// rows read a value, and ops that keep rows apart (pointwise ops; reshapes, expands and slices of
// the other axes) make it of constants that take less memory, the gathers move in front of these
// ops:
//
//   %x = cast(%codes) : f32[rows, 64]                %c = gather(%codes, %ids) : i8[batch, 64]
//   %t = mul(%x, %scales) : f32[rows, 64]      =>    %x = cast(%c) : f32[batch, 64]
//   %y = gather(%t, %ids) : f32[batch, 64]           %s = gather(%scales, %ids) : f32[batch, 1]
//                                                    %y = mul(%x, %s) : f32[batch, 64]
//
// Codes whose values all fit into 4 bits are stored two a byte (import holds INT4 and UINT4 as
// bytes), and floats that are all E4M3 numbers in 8 bits. The result is exact: each element is
// computed as before. Must run before constants are folded.
Result<bool> DequantizeAfterGather(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
