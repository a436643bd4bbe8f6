#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// For models whose products have weights of 4 bits with a scale for each block of a row (the op
// MatMulNBits: GPTQ, AWQ, HQQ, QLoRA): keeps two codes per byte, which take an eighth of the memory
// of f32. Without this pass, constant folding would turn codes and scales into a matrix of floats.
// The codes are packed and unpacked again in front of the op that turns them into floats. Packing
// is folded; unpacking is not, because it doubles the number of elements, and nor is anything
// behind it:
//
//   %x = cast(%codes) : f32[32, 4, 16]               %q = unpack_int4(%pairs) : u8[32, 4, 16]
//   %w = mul(%x, %scales) : f32[32, 4, 16]    =>     %x = cast(%q) : f32[32, 4, 16]
//   %r = reshape(%w) : f32[32, 64]                   %w = mul(%x, %scales) : f32[32, 4, 16]
//   %t = transpose(%r) : f32[64, 32]                 ...
//   %y = matmul(%a, %t) : f32[batch, 32]
//
// The result is exact. The pass must run before constants are folded; fuse-dequantization then
// makes the product read the codes. Codes of a matrix [depth, columns], as DequantizeLinear has
// them, are transposed first, and so are scales and zero points.
//
// Weights stay as they are if they are small or of low rank (an adapter), or if the scales take more
// than an eighth as many elements.
Result<bool> KeepPackedWeights(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
