// Conversions of floats to integers, rounded toward zero. A value out of range gives the nearest
// integer, and NaN gives 0. The conversion instruction of the GPU saturates as well, but turns most
// NaNs into the smallest integer; in C++ a conversion out of range is undefined.

template <class Real>
__device__ __forceinline__ int TruncateToInt(Real x) {
  if (x != x) return 0;
#ifndef __CUDACC__
  if (x >= Real(2147483648.0)) return 2147483647;
  if (x <= Real(-2147483648.0)) return -2147483647 - 1;
#endif
  return static_cast<int>(x);
}

template <class Real>
__device__ __forceinline__ long long TruncateToLong(Real x) {
  if (x != x) return 0;
#ifndef __CUDACC__
  if (x >= Real(9223372036854775808.0)) return 9223372036854775807LL;
  if (x <= Real(-9223372036854775808.0)) return -9223372036854775807LL - 1;
#endif
  return static_cast<long long>(x);
}

// Negative numbers wrap around, as in a cast through a signed integer.
template <class Real>
__device__ __forceinline__ unsigned long long TruncateToUnsignedLong(Real x) {
  if (x < Real(9223372036854775808.0) || x != x) {
    return static_cast<unsigned long long>(TruncateToLong(x));
  }
  return x >= Real(18446744073709551616.0) ? ~0ULL : static_cast<unsigned long long>(x);
}
