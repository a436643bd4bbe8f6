// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). Since (1 + tanh u) / 2 = 1 / (1 +
// e^-2u), one exponential is enough, and there is no cancellation for negative x.
template <class Real>
__device__ __forceinline__ Real GeluTanh(Real x) {
  return x * Sigmoid(Real(1.5957691216057308) * (x + Real(0.044715) * x * x * x));
}
