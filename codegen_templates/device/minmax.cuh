// The larger of two floats, or NaN if either is NaN; fmaxf would return the other one.
template <class Real>
__device__ __forceinline__ Real Max(Real a, Real b) {
  return a > b || a != a ? a : b;
}

// The smaller of two floats, or NaN if either is NaN; fminf would return the other one.
template <class Real>
__device__ __forceinline__ Real Min(Real a, Real b) {
  return a < b || a != a ? a : b;
}
