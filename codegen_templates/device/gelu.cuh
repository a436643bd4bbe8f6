// x Phi(x), where Phi(x) = (1 + erf(x / sqrt 2)) / 2 is the normal distribution.
template <class Real>
__device__ __forceinline__ Real Gelu(Real x) {
  return Real(0.5) * x * (1 + erf(x * Real(0.70710678118654752)));
}
