// x tanh(log(1 + e^x)). With n = e^x (e^x + 2), the tanh is n / (n + 2). It rounds to 1 from x = 20
// on, so that x is limited to 20 in e^x, which could overflow otherwise.
template <class Real>
__device__ __forceinline__ Real Mish(Real x) {
  const Real power = exp(x > 20 ? 20 : x);
  const Real n = power * (power + 2);
  return x * (n / (n + 2));
}
