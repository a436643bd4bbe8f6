// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow.
template <class Real>
__device__ __forceinline__ Real Softplus(Real x) {
  return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}
