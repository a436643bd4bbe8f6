// Whether `a` is greater than `b` in the order used for sorting: NaN is greater than every number
// and equal to every other NaN.
template <class Real>
__device__ __forceinline__ bool IsAbove(Real a, Real b) {
  return a > b || (a != a && b == b);
}
