// The larger and the smaller of two floats. Unlike fmaxf and fminf, a NaN on either side is the
// result.
template <class Real>
__device__ __forceinline__ Real Max(Real a, Real b) {
  return a > b || a != a ? a : b;
}
template <class Real>
__device__ __forceinline__ Real Min(Real a, Real b) {
  return a < b || a != a ? a : b;
}
