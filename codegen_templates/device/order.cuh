// Floats in the order that sorting wants: NaN ranks above every number and beside every other NaN.
template <class Real>
__device__ __forceinline__ bool IsAbove(Real a, Real b) {
  return a > b || (a != a && b == b);
}
