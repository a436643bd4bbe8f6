// x tanh(log(1 + e^x)). With n = e^x (e^x + 2), the tanh is n / (n + 2). From x = 20 on that is 1,
// and a larger e^x could overflow.
template <class Real>
__device__ __forceinline__ Real Mish(Real x) {
  const Real power = exp(x > 20 ? 20 : x);
  const Real n = power * (power + 2);
  return x * (n / (n + 2));
}
