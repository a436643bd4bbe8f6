// 1 / (1 + e^-x). For x below -88 the power overflows to infinity, and the result is 0, as it
// should be. The quotient of floats is within one unit in the last place.
template <class Real>
__device__ __forceinline__ Real Sigmoid(Real x) {
  const Real divisor = 1 + exp(-x);
#ifdef __CUDACC__
  if constexpr (sizeof(Real) == sizeof(float)) {  // a division would branch
    float quotient;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(divisor));
    return quotient;
  }
#endif
  return 1 / divisor;
}
