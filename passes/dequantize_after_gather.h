#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// For models that contain quantized tables: looks rows up before they are dequantized. Without this
// pass, constant folding would turn codes and scales into a table of floats. Where only gathers
// along the rows read a value, and ops that keep rows separate (pointwise ops; reshapes, expands
// and slices of the other axes) compute it from constants that take less memory, the gathers move
// in front of these ops:
//
//   %x = cast(%codes) : f32[rows, 64]                %c = gather(%codes, %ids) : i8[batch, 64]
//   %t = mul(%x, %scales) : f32[rows, 64]      =>    %x = cast(%c) : f32[batch, 64]
//   %y = gather(%t, %ids) : f32[batch, 64]           %s = gather(%scales, %ids) : f32[batch, 1]
//                                                    %y = mul(%x, %s) : f32[batch, 64]
//
// Codes whose values all fit into 4 bits are stored two per byte (the importer holds INT4 and UINT4
// as bytes), and floats that are all E4M3 numbers are stored in 8 bits. The result is exact: each
// element is computed as before. The pass must run before constants are folded.
Result<bool> DequantizeAfterGather(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
