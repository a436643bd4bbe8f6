// Shifts of signed integers. Bits that are shifted out are lost, and a right shift fills with the
// sign. A shift by less than 0 is, as ONNX has it, one by the width or more: it leaves no bit, or
// the sign alone.
template <class Int>
__device__ __forceinline__ Int ShiftLeft(Int x, Int bits) {
  const bool leaves_bits = static_cast<unsigned long long>(bits) < 8 * sizeof(Int);
  return leaves_bits ? Int(static_cast<unsigned long long>(x) << bits) : Int(0);
}

template <class Int>
__device__ __forceinline__ Int ShiftRight(Int x, Int bits) {
  constexpr int kWidth = 8 * sizeof(Int);
  const bool leaves_bits = static_cast<unsigned long long>(bits) < kWidth;
  return Int(x >> (leaves_bits ? static_cast<int>(bits) : kWidth - 1));
}
