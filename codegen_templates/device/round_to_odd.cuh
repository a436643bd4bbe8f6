// A float that rounds to a shorter format as `x` itself would: `x` rounded toward zero, with the
// last bit set if that is not exact. Rounding to the nearest float first could round twice.
// (Boldo and Melquiond, Emulation of FMA and Correctly Rounded Sums, 2008: rounding to odd.)
__device__ __forceinline__ float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (nearest == x || x != x) return nearest;
  const bool is_beyond = fabs(static_cast<double>(nearest)) > fabs(x);
  return __uint_as_float((__float_as_uint(nearest) - (is_beyond ? 1 : 0)) | 1);
}
