// 1 / (1 + e^-x). For x below -88, e^-x overflows to infinity in float, and the result is 0, as it
// should be. The error of the float reciprocal is at most one unit in the last place.
template <class Real>
__device__ __forceinline__ Real Sigmoid(Real x) {
  const Real divisor = 1 + exp(-x);
#ifdef __CUDACC__
  if constexpr (sizeof(Real) == sizeof(float)) {  // a division would contain a branch
    float quotient;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(divisor));
    return quotient;
  }
#endif
  return 1 / divisor;
}
