#include "runtime/src/artifact/half.h"

#include <bit>

namespace fusec::runtime {

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity or NaN, which becomes quiet
    const uint32_t payload = (magnitude & 0x3ff) << 13;
    return std::bit_cast<float>(sign | 0x7f800000 | payload | (payload ? 0x400000 : 0));
  }
  // After the shift the exponent is too small by 127 - 15 = 112, the difference of the biases. The
  // product with 2^112 corrects this, for denormals too.
  const float unscaled = std::bit_cast<float>(magnitude << 13);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(unscaled * 0x1p112f));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude < 0x38800000) {
    // f16 numbers below 2^-14 are multiples of 2^-24. 0.5f has an ulp of 2^-24, so adding it rounds
    // to such a multiple, ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void WidenToFloat(fusec_dtype dtype, std::span<const uint16_t> from, float* to) {
  if (dtype == FUSEC_F16) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = HalfToFloat(from[i]);
  } else {
    for (size_t i = 0; i < from.size(); ++i) to[i] = BFloat16ToFloat(from[i]);
  }
}

void NarrowFromFloat(fusec_dtype dtype, std::span<const float> from, uint16_t* to) {
  if (dtype == FUSEC_F16) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = FloatToHalf(from[i]);
  } else {
    for (size_t i = 0; i < from.size(); ++i) to[i] = FloatToBFloat16(from[i]);
  }
}

}  // namespace fusec::runtime
