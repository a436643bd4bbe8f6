#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Takes the codes of a value that is quantized again with the scale, zero point and type with which
// its codes were dequantized, as quantizers of models (onnxruntime's QDQ format) write around ops
// that only move elements. The views between the two then move codes:
//
//   %x = dequantize(%q)        f32[batch, 8]        %t = transpose(%q)     i8[8, batch]
//   %t = transpose(%x)         f32[8, batch]   =>
//   %r = quantize(%t)          i8[8, batch]
//
// where dequantize is (q - z) s, and quantize is saturate(round(x / s) + z), spelled out in ops.
// Exact for one scale and zero point per tensor: (n s) / s differs from the integer n, of at most
// 17 bits, by less than 2^-6, as long as n s is a normal number.
Result<bool> SkipRequantization(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
