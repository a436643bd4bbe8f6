// alpha x + beta, clamped to 0..1. NaN stays NaN.
template <class Real>
__device__ __forceinline__ Real HardSigmoid(Real x, Real alpha, Real beta) {
  const Real line = alpha * x + beta;
  return line < 0 ? 0 : line > 1 ? 1 : line;
}

// x * clamp(x / 6 + 1/2, 0, 1).
template <class Real>
__device__ __forceinline__ Real HardSwish(Real x) {
  return x * HardSigmoid(x, Real(1.0 / 6.0), Real(0.5));
}
