#pragma once

#include <cstdint>
#include <span>

#include "fusec/fusec.h"

namespace fusec::runtime {

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);  // to nearest, ties to even; from 65520 on infinity
float BFloat16ToFloat(uint16_t bits);
uint16_t FloatToBFloat16(float value);  // to nearest, ties to even

// Convert arrays of f16 or bf16 (`dtype`) to and from f32.
void WidenToFloat(fusec_dtype dtype, std::span<const uint16_t> from, float* to);
void NarrowFromFloat(fusec_dtype dtype, std::span<const float> from, uint16_t* to);

}  // namespace fusec::runtime
