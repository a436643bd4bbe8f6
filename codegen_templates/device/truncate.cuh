// Conversions of floats to integers, rounded toward zero. A value out of range gives the nearest
// integer, and NaN gives 0. The conversion instruction of the GPU saturates as well, but turns most
// NaNs into the smallest integer; in C++ a conversion out of range is undefined.

template <class Real>
__device__ __forceinline__ int TruncateToInt(Real x) {
#ifdef __CUDACC__
  if (x != x) return 0;
  return static_cast<int>(x);
#else  // without branches, so that compilers vectorize loops of conversions
  const Real least = x > Real(-2147483648.0) ? x : Real(-2147483648.0);
  const int whole = static_cast<int>(least < Real(2147483648.0) ? least : Real(0));
  const int limited = least < Real(2147483648.0) ? whole : 2147483647;
  return x == x ? limited : 0;
#endif
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
