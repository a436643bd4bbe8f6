// A float that rounds to a shorter format exactly as `x` itself does: `x` is rounded toward zero,
// and the last bit is set if that is not exact (rounding to odd; Boldo and Melquiond, Emulation of
// FMA and Correctly Rounded Sums, 2008). Rounding to the nearest float first would cause double
// rounding.
__device__ __forceinline__ float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (nearest == x || x != x) return nearest;
  const bool is_beyond = fabs(static_cast<double>(nearest)) > fabs(x);
  return __uint_as_float((__float_as_uint(nearest) - (is_beyond ? 1 : 0)) | 1);
}
