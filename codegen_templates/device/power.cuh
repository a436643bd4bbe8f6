// base^exponent in integers; overflow wraps around. A negative exponent gives the reciprocal
// rounded toward zero: 0 unless the base is 1 or -1 (base 0 gives 0 as well).
template <class Int>
__device__ __forceinline__ Int IntegerPower(Int base, long long exponent) {
  constexpr bool kSigned = Int(-1) < Int(1);
  if (exponent < 0) {
    const bool is_unit = base == 1 || (kSigned && base == Int(-1));
    return is_unit ? (exponent % 2 == 0 ? Int(1) : base) : Int(0);
  }
  unsigned long long power = 1;
  unsigned long long square = static_cast<unsigned long long>(base);
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power *= square;
    square *= square;
  }
  return Int(power);
}

// Rounds a result of pow to the nearest integer if it is within the error of pow, which is up to 2
// units in the last place on a GPU. Otherwise 2.9999999999999996, truncated, would become 2.
__device__ __forceinline__ double SnapToInteger(double power) {
  const double nearest = rint(power);
  return fabs(power - nearest) <= 4.5e-16 * fabs(nearest) ? nearest : power;
}
