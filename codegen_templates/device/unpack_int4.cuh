// Unpacks the 4-bit codes of weights, 0 to 15, from kCount / 2 bytes, each of which holds two, the
// first in the low bits. On a GPU, they become floats.
#ifdef __CUDACC__
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> UnpackInt4(
    const Vector<unsigned char, kCount / 2>& packed) {
  static_assert(kCount % 4 == 0);
  Vector<float, kCount> codes;
  // Four codes at a time become bits of the mantissa of 2^23, 2^19, 2^15 and 2^11, in which they
  // count as ones. That takes less time than converting integers.
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const unsigned bits = packed.at[i / 2] | packed.at[i / 2 + 1] << 8;
    codes.at[i] = __uint_as_float((bits & 0xf) | 0x4b000000) - 8388608.0f;
    codes.at[i + 1] = __uint_as_float((bits & 0xf0) | 0x49000000) - 524288.0f;
    codes.at[i + 2] = __uint_as_float((bits & 0xf00) | 0x47000000) - 32768.0f;
    codes.at[i + 3] = __uint_as_float((bits & 0xf000) | 0x45000000) - 2048.0f;
  }
  return codes;
}
#else
template <int kCount>
inline Vector<unsigned char, kCount> UnpackInt4(const Vector<unsigned char, kCount / 2>& packed) {
  union {
    unsigned short pairs[kCount / 2];
    Vector<unsigned char, kCount> codes;
  } unpacked;
  for (int i = 0; i < kCount / 2; ++i) {  // is vectorized, because all shifts are equal
    const unsigned pair = packed.at[i];
    unpacked.pairs[i] = static_cast<unsigned short>((pair | pair << 4) & 0x0f0f);
  }
  return unpacked.codes;
}
#endif
