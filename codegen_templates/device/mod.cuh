// The remainder of an integer division that rounds toward zero; it has the sign of `a`. Division by
// zero gives 0.
template <class Int>
__device__ __forceinline__ Int Remainder(Int a, Int b) {
  constexpr bool kSigned = Int(-1) < Int(1);
  if (b == 0 || (kSigned && b == Int(-1)))
    return 0;  // the smallest integer % -1 would trap on a CPU
  return Int(a % b);
}

// The remainder of an integer division that rounds toward minus infinity, like Python's %; it has
// the sign of `b`.
template <class Int>
__device__ __forceinline__ Int FloorMod(Int a, Int b) {
  const Int remainder = Remainder<Int>(a, b);
  const bool wrong_sign = remainder != 0 && (remainder < Int(1)) != (b < Int(1));  // neither is 0
  return wrong_sign ? Int(remainder + b) : remainder;
}

// The same for floats; a zero has the sign of `b`, too.
template <class Real>
__device__ __forceinline__ Real FloatFloorMod(Real a, Real b) {
  const Real remainder = fmod(a, b);
  if (remainder == 0) return copysign(remainder, b);
  const bool wrong_sign = (remainder < 0) != (b < 0);
  return wrong_sign ? remainder + b : remainder;
}
