#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Multiplies in f16 what f16 holds exactly (number_ranges.h): codes of 8 bits less their zero
// point, as the layers of quantized models have them, and E4M3 numbers, by constant weights of the
// same kinds. Products of halves are exact in f32, in which they are added up, so that the answers
// are those of an f32 product up to the order of summation.
//
//   %x = sub(cast(%codes), %zero_point) : f32[batch, 256]       from u8, i8
//   %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[batch, 512]
// =>
//   %y = matmul(cast(%x), cast(%w)) {to = f32, ..} : f32[batch, 512]      of f16
//
// Such a product takes a third of the tensor cores' time of an f32 product in three parts, or half
// that of TF32, and its factors half the memory. Only for GPUs that have tensor cores.
Result<bool> ExactHalfProducts(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
