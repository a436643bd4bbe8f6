// The larger of two floats, or NaN if either is NaN; fmaxf would return the other one.
template <class Real>
__device__ __forceinline__ Real Max(Real a, Real b) {
#ifdef __CUDACC__
  return a > b || a != a ? a : b;
#else  // without branches, so that compilers vectorize; one comparison if b is a constant
  const Real larger = !(a <= b) ? a : b;
  return b != b ? b : larger;
#endif
}

// The smaller of two floats, or NaN if either is NaN; fminf would return the other one.
template <class Real>
__device__ __forceinline__ Real Min(Real a, Real b) {
#ifdef __CUDACC__
  return a < b || a != a ? a : b;
#else
  const Real smaller = !(a >= b) ? a : b;
  return b != b ? b : smaller;
#endif
}
