// 1 / (1 + e^-x). For x below -88 the power overflows to infinity, and the result is 0 as it should
// be.
template <class Real>
__device__ __forceinline__ Real Sigmoid(Real x) {
  return 1 / (1 + exp(-x));
}
